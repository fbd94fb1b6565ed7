"""Messages of streams: read as results of requests, kept in sets, and dead letters where they cannot be kept.

A message is one JSON object: a bundle, and the `request_id` that it is for. The operator says of each stream which org
it is for, and which requests it may push for; nothing in a message changes that. However many messages a batch has,
the number of statements is the same.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

import orjson

from assent.model.ids import new_id
from assent.model.outside_request import Bundle, parse_bundle
from assent.model.problems import clean_error_text
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.requests", "requests.sql")

TransportKind = Literal["redis", "kafka", "nats"]

MESSAGE_BYTES_MAX: Final = 1_048_576
"""A longer message is a dead letter: 500 items with the longest cargo, kind and error have less."""
KEPT_BYTES_MAX: Final = 65_536
"""How much is kept of one that is longer."""
SHOWN_CHARACTERS_MAX: Final = 2_000
"""How much of it a dead letter shows."""

REQUEST_ID: Final = "request_id"

KEPT: Final = ("accepted", "repeated", "late")
"""The outcomes of a message that is kept as a result."""


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A stream, and what an operator lets it do: push results for requests of one org."""

    transport: TransportKind
    stream: str
    org_id: str
    names: str = ""
    """How the names of the requests begin; empty for all."""

    def __str__(self) -> str:
        return f"{self.transport}:{self.stream}"


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message as it was read."""

    body: bytes
    position: str
    """In its stream: a Redis id, a Kafka partition and offset, a JetStream sequence number."""
    size: int = -1
    """Bytes; more than `body` has where only the beginning was kept."""

    @property
    def is_whole(self) -> bool:
        return self.size in (-1, len(self.body))


@dataclass(frozen=True, slots=True)
class Unkept:
    """Why a message is not kept as a result."""

    code: str
    error: str


@dataclass(frozen=True, slots=True)
class StreamResult:
    """A message that was read: results, and the request that they are for."""

    request_id: UUID
    bundle: Bundle


def read_message(message: StreamMessage) -> StreamResult | Unkept:
    """Return the results in a message, or what is wrong with it."""
    size = max(message.size, len(message.body))
    if size > MESSAGE_BYTES_MAX or not message.is_whole:
        return Unkept("TOO_LARGE", f"expected at most {MESSAGE_BYTES_MAX:,} bytes, found {size:,}")
    try:
        data = orjson.loads(message.body)
    except orjson.JSONDecodeError as error:
        return Unkept("UNREADABLE", f"expected JSON in UTF-8, found something else: {error}")
    if not isinstance(data, dict):
        return Unkept("UNREADABLE", f"expected an object, found {type(data).__name__}")
    given = data.pop(REQUEST_ID, None)
    try:
        request_id = UUID(given)
    except (ValueError, TypeError, AttributeError):
        return Unkept("UNREADABLE", f"expected the id of a request as {REQUEST_ID}, found {given!r:.100}")
    bundle, problems = parse_bundle(data)
    if bundle is None:
        return Unkept("UNREADABLE", "; ".join(map(str, problems)))
    return StreamResult(request_id, bundle)


async def keep_messages(
    connection: Connection, source: StreamSource, messages: Sequence[StreamMessage], worker_id: UUID
) -> list[str]:
    """Keep a batch of messages of a stream.

    Return for each `accepted`, `repeated` or `late`, or the code of why it is dead.
    """
    outcomes = await _push(connection, source, messages)
    dead = [
        (message, why) for message, why in zip(messages, outcomes, strict=True) if isinstance(why, Unkept)
    ]
    if dead:
        await bury_messages(connection, source, dead, worker_id)
    return [one.code if isinstance(one, Unkept) else one for one in outcomes]


async def keep_again(
    connection: Connection, source: StreamSource, messages: Sequence[StreamMessage]
) -> list[Unkept | None]:
    """Keep messages that a person retries; return why each cannot be kept, if so."""
    outcomes = await _push(connection, source, messages)
    return [one if isinstance(one, Unkept) else None for one in outcomes]


async def _push(
    connection: Connection, source: StreamSource, messages: Sequence[StreamMessage]
) -> list[str | Unkept]:
    read = [read_message(message) for message in messages]
    good = [(number, one) for number, one in enumerate(read) if isinstance(one, StreamResult)]
    outcomes: list[str | Unkept] = [one if isinstance(one, Unkept) else "" for one in read]
    if good:
        bundles = [_bundle_row(source, messages[number], one) for number, one in good]
        given = (bundles, source.transport, None, source.names, False)
        rows = await connection.fetch(_SQL.keep_deliveries, *given)
        for (number, one), row in zip(good, rows, strict=True):
            outcomes[number] = _outcome(source, one, row)
    return outcomes


def _bundle_row(source: StreamSource, message: StreamMessage, result: StreamResult) -> dict[str, Any]:
    return {
        "org_id": source.org_id,
        "request_id": result.request_id,
        "body": result.bundle.to_json(),
        "origin": f"{source}/{message.position}",
    }


def _outcome(source: StreamSource, result: StreamResult, row: Row) -> str | Unkept:
    code = row["outcome"]
    reasons = {
        "NOT_FOUND": f"org {source.org_id} has no request {result.request_id}",
        "REQUEST_NOT_OF_STREAM": (
            f"{source} may push for requests whose name begins with {source.names}, and the name of "
            f"{result.request_id} does not"
        ),
        "SIGNATURE_MISSING": "a source of events signs these results: they are taken over HTTP, with its signature",
        "UNKNOWN_VERSION": f"there is no version {row['version']}",
    }
    return code if code in KEPT else Unkept(code, reasons[code])


async def bury_messages(
    connection: Connection,
    source: StreamSource,
    dead: Sequence[tuple[StreamMessage, Unkept]],
    worker_id: UUID,
) -> None:
    """Keep messages as dead letters with their origin; one that is read again is one dead letter."""
    now = await transaction_time(connection)
    rows = [
        {
            "number": number,
            "org_id": source.org_id,
            "id": new_id(now),
            "transport": source.transport,
            "stream": source.stream,
            "position": message.position,
            "names": source.names,
            "size": max(message.size, len(message.body)),
            "lane": str(source)[:200],
            "code": why.code,
            "error": clean_error_text(f"{why.code}: {why.error} (read at {source}/{message.position})"),
            "evidence": {"origin": f"{source}/{message.position}", "body": _shown(message.body)},
        }
        for number, (message, why) in enumerate(dead, start=1)
    ]
    bodies = [_kept(message.body) for message, _ in dead]
    hashes = [hashlib.sha256(message.body).digest() for message, _ in dead]
    await connection.execute(_SQL.bury_messages, rows, bodies, hashes, worker_id)


def _kept(body: bytes) -> bytes:
    return body if len(body) <= MESSAGE_BYTES_MAX else body[:KEPT_BYTES_MAX]


def _shown(body: bytes) -> str:
    return clean_error_text(body[: 4 * SHOWN_CHARACTERS_MAX].decode("utf-8", errors="replace"))
