"""Connections to PostgreSQL: one set of options, JSON by orjson, errors that say what to do, every wait limited."""

import asyncio
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import orjson

from assent.store.errors import RolledBack, StoreError
from assent.store.settings import Settings

if TYPE_CHECKING:
    _Base = asyncpg.Connection[asyncpg.Record]
    Connection: TypeAlias = (
        asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    )
else:
    _Base = asyncpg.Connection
    Connection: TypeAlias = asyncpg.Connection

SERVER_VERSION_MIN: Final = 15
FRESH_PLANS: Final = "force_custom_plan"
"""PostgreSQL's word for planning each execution by itself."""
_JSONB_VERSION: Final = b"\x01"
KEEPALIVE_PROBES: Final = 3
"""Probes without an answer that end an idle connection, a third of `tcp_keepalive_ms` apart."""


Explain = Callable[[asyncpg.PostgresError], Exception | None]
"""Returns what an error of a statement means to its caller; None for an error of another statement."""


@dataclass(frozen=True, slots=True)
class _Unsent:
    """A write that waits for the next message, or the begin or end of a savepoint."""

    text: str
    explain: Explain | None = None
    statement: str | None = None
    """The statement that `text` prepares, if it is the first execution on its connection."""
    name: str = ""
    """The name under which it is prepared."""
    is_write: bool = True


@dataclass(slots=True)
class Vitals:
    """What is known of a connection's health; times are monotonic."""

    opened_s: float = field(default_factory=time.monotonic)
    used_s: float = field(default_factory=time.monotonic)
    """When it was last given back."""
    in_use: bool = False
    is_silent: bool = False
    """Whether it was dropped because the server did not answer."""
    is_condemned: bool = False
    """Whether it is to be dropped instead of used again."""
    lifetime_s: float | None = None


class LiveConnection(_Base):
    """A connection with a deadline for everything that it waits for, and on which a COMMIT that rolls back is an error.

    asyncpg gives up on a statement after its deadline, then asks the server to cancel it and waits for the answer on
    the same connection, for another deadline. Here that wait, and every close, ends after `cancel_timeout_ms`: the
    connection is dropped, so that whatever waits for it fails at once and its place in the pool is free.
    """

    def __init__(self, protocol: Any, transport: asyncio.Transport, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.vitals = Vitals()
        self._socket = transport.get_extra_info("socket")
        self._cancel_timeout_s = 0.0
        self._giving_up: asyncio.TimerHandle | None = None
        self._entrance: str | None = None
        self._gathers = False
        self._beginning: str | None = None
        """What begins the transaction, as long as it is not sent."""
        self._unsent: list[_Unsent] = []
        self._prepares = True
        self._prepared: dict[str, str] = {}
        """Statement → the name under which this connection has prepared it."""
        self._names = 0
        self._exit: str | None = None
        """What goes in the message of COMMIT."""

    async def begin(
        self, transaction: asyncpg.transaction.Transaction, entrance: str | None, *, gathers: bool = False
    ) -> None:
        """Begin a transaction, and run `entrance` in the same message: asyncpg would wait for the reply to BEGIN first.

        One that `gathers` begins with its first statement, and sends what is `put` with its next one. After an error
        the pool rolls back what was begun, when the connection is given back.
        """
        self._entrance, self._exit, self._gathers = entrance, None, gathers
        try:
            await transaction.start()
        finally:
            self._entrance = None

    def end(self) -> None:
        """Forget what was put and not sent: the transaction has ended."""
        self._gathers, self._beginning = False, None
        self._unsent.clear()

    @asynccontextmanager
    async def sending_at_once(self) -> AsyncIterator[None]:
        """Send what is put inside at once: an error of it belongs to the block."""
        gathered, self._gathers = self._gathers, False
        try:
            yield
        finally:
            self._gathers = gathered

    def end_with(self, statement: str) -> None:
        """Run a statement in the message that commits the transaction; it takes no arguments and returns nothing."""
        self._exit = statement

    def guard(self, settings: Settings, *, prepares: bool) -> None:
        """Apply the deadlines of these settings, those of the socket included; `prepares`: PREPARE may be used."""
        self._cancel_timeout_s = settings.cancel_timeout_ms / 1000
        self._prepares = prepares
        _guard_socket(self._socket, settings)

    def gather(self, statement: str, args: tuple[object, ...], explain: Explain | None) -> bool:
        """Keep a statement for the next message; return False if the transaction does not gather, or it is large."""
        if not self._gathers:
            return False
        texts = _texts(statement, args)
        if sum(len(text) for text in texts if text is not None) > GATHERED_CHARACTERS_MAX:
            return False
        self._unsent.append(self._unsent_of(statement, texts, explain))
        return True

    def _unsent_of(self, statement: str, texts: Sequence[str | None], explain: Explain | None) -> _Unsent:
        if not self._prepares:
            return _Unsent(_with_literals(statement, texts), explain)
        known = self._prepared.get(statement) or next(
            (one.name for one in self._unsent if one.statement == statement), None
        )
        if known is not None:
            return _Unsent(_execution(known, statement, texts), explain)
        self._names += 1
        name = f"assent_{self._names}"
        text = f"PREPARE {name} AS {statement};\n{_execution(name, statement, texts)}"
        return _Unsent(text, explain, statement, name)

    async def _send_with(self, query: str, timeout: float | None) -> str:  # noqa: ASYNC109 - asyncpg's
        """Run what was put, and then `query`, in one message; an error stops it, and nothing behind it is run."""
        beginning, self._beginning = self._beginning, None
        unsent, self._unsent = self._unsent, []
        texts = [*([beginning] if beginning is not None else ()), *(one.text for one in unsent), query]
        try:
            status: str = await super().execute(";\n".join(texts), timeout=timeout)
        except asyncpg.PostgresError as error:
            if beginning is not None and not self.is_in_transaction():
                self.terminate()  # what its caller sent next would be confined to no org
            for one in unsent:
                if one.explain is not None and (explained := one.explain(error)) is not None:
                    raise explained from error
            raise
        except BaseException:
            if beginning is not None:
                self.terminate()
            raise
        self._prepared |= {one.statement: one.name for one in unsent if one.statement is not None}
        return status

    def is_in_transaction(self) -> bool:
        """Return whether a transaction is under way, also one whose BEGIN waits for the first statement."""
        return self._beginning is not None or super().is_in_transaction()

    async def send_unsent(self) -> None:
        """Send what was put."""
        if self._unsent or self._beginning is not None:
            await self._send_with("", None)

    async def _get_statement(self, *args: Any, **options: Any) -> Any:
        # Whatever has arguments or a result comes by here.
        await self.send_unsent()
        return await super()._get_statement(*args, **options)  # type: ignore[misc]

    async def _copy_in(self, *args: Any, **options: Any) -> Any:
        await self.send_unsent()
        return await super()._copy_in(*args, **options)  # type: ignore[misc]

    async def _copy_out(self, *args: Any, **options: Any) -> Any:
        await self.send_unsent()
        return await super()._copy_out(*args, **options)  # type: ignore[misc]

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109 - asyncpg's
        """Run a statement; raise `RolledBack` for a COMMIT that the server replies with a rollback.

        PostgreSQL answers COMMIT with `ROLLBACK`, and no error, after a statement of the transaction failed: where code
        has caught that error, asyncpg would report success.
        """
        if args:
            return await super().execute(query, *args, timeout=timeout)
        if self._entrance is not None and query.startswith("BEGIN"):
            name, text = self._entrance.split("*/", 1)
            query = f"{name}*/ {query} {text}"
            if self._gathers:
                self._beginning = query.rstrip(";\n ")
                return "BEGIN"
        elif query.startswith("ROLLBACK"):
            if self._forget_unsent(query):
                return "ROLLBACK"
        elif self._gathers and self._may_wait(query):
            self._unsent.append(_Unsent(query.removesuffix(";"), is_write=False))
            return query.partition(" ")[0]
        elif query.startswith("COMMIT") and self._exit is not None:
            self._unsent.append(_Unsent(self._exit.rstrip().rstrip(";")))
            self._exit = None
        status = await self._send_with(query, timeout)
        if status == "ROLLBACK" and query.startswith("COMMIT"):
            raise RolledBack(
                "A statement of the transaction failed, and its error was caught: nothing was changed. "
                "Run statements that may fail inside `connection.transaction()`, a savepoint"
            )
        return status

    def _may_wait(self, query: str) -> bool:
        """Return whether a savepoint may begin, or end, with the next message.

        It begins in no message with writes before it: were one of them refused, there would be no savepoint to go
        back to.
        """
        is_savepoint = query.startswith("SAVEPOINT") and not any(one.is_write for one in self._unsent)
        return is_savepoint or query.startswith("RELEASE SAVEPOINT")

    def _forget_unsent(self, query: str) -> bool:
        """Forget what was put since a savepoint, or the transaction, began; return whether the server knows neither."""
        texts = [one.text for one in self._unsent]
        savepoint = f"SAVEPOINT {query.removeprefix('ROLLBACK TO ').removesuffix(';')}"
        if savepoint in texts:
            del self._unsent[texts.index(savepoint) :]
            return True
        self._unsent.clear()
        is_unknown, self._beginning = self._beginning is not None, None
        return is_unknown

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's own
        """Close the connection; a server that does not answer in time is left without a goodbye."""
        with suppress(TimeoutError):
            await super().close(timeout=timeout or self._cancel_timeout_s or None)

    @property
    def live(self) -> "LiveConnection":
        """The connection itself, also where a pool's proxy is asked."""
        return self

    @property
    def is_cancelling(self) -> bool:
        """Return whether a statement was abandoned, and the server has not confirmed its cancellation."""
        protocol: Any = self._protocol  # type: ignore[attr-defined]
        return protocol is not None and bool(protocol._is_cancelling())

    def terminate(self) -> None:
        """End the connection at once; one that is cancelling is ended because the server does not answer."""
        self.vitals.is_silent = self.vitals.is_silent or self.is_cancelling
        super().terminate()

    def _cancel_current_command(self, *waiters: Any) -> None:
        # asyncpg calls this after a deadline and when the caller is cancelled. From here on nothing else can use the
        # connection until the server confirms, so the time for that is ours to limit.
        super()._cancel_current_command(*waiters)  # type: ignore[misc]
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._cancel_timeout_s:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self._cancel_timeout_s, self._drop_if_cancelling)

    def _drop_if_cancelling(self) -> None:
        self._giving_up = None
        if self.is_cancelling:
            self.terminate()


async def put(connection: Connection, statement: str, *args: object, explain: Explain | None = None) -> None:
    """Run a statement that returns nothing; in a transaction that gathers, in one message with the next statement.

    Its arguments have a cast in the statement, such as `$1::jsonb`. It raises an error where it had no effect that it
    had to have: its caller does not hear how many rows it changed. `explain` says what such an error means.
    """
    # The caller's own connection is asyncpg's, and knows nothing of this.
    live: LiveConnection | None = getattr(connection, "live", None)
    if live is not None and live.gather(statement, args, explain):
        return
    try:
        await connection.execute(statement, *args)
    except asyncpg.PostgresError as error:
        if explain is not None and (explained := explain(error)) is not None:
            raise explained from error
        raise


async def send_unsent(connection: Connection) -> None:
    """Send what was put, so that its errors are not taken for those of the statement that comes next."""
    live: LiveConnection | None = getattr(connection, "live", None)
    if live is not None:
        await live.send_unsent()


GATHERED_CHARACTERS_MAX: Final = 100_000
"""Of the values of one write that waits. A larger one goes by itself: its digits would hold the event loop for long."""

_PLACE: Final = re.compile(r"\$(\d+)")
_TYPED_PLACE: Final = re.compile(r"\$(\d+)::(\w+(?:\[\])?)")


def inline(statement: str, *values: object) -> str:
    """Return a statement with values in the places of $1, $2, …, for a message that takes no arguments.

    Each goes in as hexadecimal digits of its text, so that no text can end the literal that it is in. A value that is
    no text has a cast in the statement, such as `$1::jsonb`.
    """
    return _with_literals(statement, _texts(statement, values))


def _with_literals(statement: str, texts: Sequence[str | None]) -> str:
    literals = [_literal(text) for text in texts]
    return _PLACE.sub(lambda place: literals[int(place[1]) - 1], statement)


def _execution(name: str, statement: str, texts: Sequence[str | None]) -> str:
    """Return the execution of a statement that is prepared, with its values in it, under the statement's own name."""
    types = _types(statement)
    values = ", ".join(f"{_literal(text)}::{types[place]}" for place, text in enumerate(texts, 1))
    return f"{statement.partition('*/')[0]}*/ EXECUTE {name}({values})"


def _literal(text: str | None) -> str:
    return "NULL" if text is None else f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"


@cache
def _types(statement: str) -> dict[int, str]:
    """Return the type of each place of a statement that has a cast."""
    return {int(place): wanted for place, wanted in _TYPED_PLACE.findall(statement)}


def _texts(statement: str, values: Sequence[object]) -> list[str | None]:
    types = _types(statement)
    return [
        None if value is None else _text(value, types.get(place, "text"))
        for place, value in enumerate(values, 1)
    ]


def _text(value: object, wanted: str) -> str:
    """Return a value as PostgreSQL reads it from text."""
    if wanted == "jsonb":
        return encode_json(value).decode()
    if wanted.endswith("[]"):
        assert isinstance(value, Iterable)
        return "{" + ",".join(map(_element, value)) + "}"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    text = _text(value, "text").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _guard_socket(connected: socket.socket | None, settings: Settings) -> None:
    """Have the kernel notice a peer that is gone: keepalive for an idle connection, a limit for unacknowledged data."""
    if connected is None or connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle_s = max(1, settings.tcp_keepalive_ms // 1000)
    wanted = {
        "TCP_KEEPIDLE": idle_s,
        "TCP_KEEPALIVE": idle_s,  # the same on macOS
        "TCP_KEEPINTVL": max(1, idle_s // KEEPALIVE_PROBES),
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
        "TCP_USER_TIMEOUT": settings.tcp_user_timeout_ms,
    }
    for name, value in wanted.items():
        # Not every system has all of them.
        if (option := getattr(socket, name, None)) is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


class Json:
    """A JSON value as an element of an array argument: `unnest($1::jsonb[])`.

    Without it asyncpg takes a list among the values for a further dimension of the array. It also tells the
    null of JSON, `Json(None)`, from that of SQL.
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def json_array(values: Iterable[object]) -> list[Json]:
    """JSON values as one array argument."""
    return [Json(value) for value in values]


async def connect(url: str, settings: Settings) -> LiveConnection:
    """Return a connection outside every pool, ready for use; raise `StoreError` where that fails or takes too long."""
    with _explained(url):
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            connection: LiveConnection = await asyncpg.connect(url, **_options(url, settings))
            try:
                connection.guard(settings, prepares=settings.prepares_by_name(url))
                await _prepare(connection)
            except BaseException:
                connection.terminate()
                raise
    return connection


def _options(url: str, settings: Settings) -> dict[str, Any]:
    return {
        "connection_class": LiveConnection,
        "command_timeout": settings.statement_deadline_s,
        "timeout": settings.connect_timeout_ms / 1000,
        "statement_cache_size": settings.prepared_statements_max,
        # Neither age nor size throws a prepared statement out: there is a known number of them.
        "max_cached_statement_lifetime": 0,
        "max_cacheable_statement_size": 0,
        # A pooler refuses most parameters at start-up; through one, each transaction sets them.
        "server_settings": _NAMES if settings.is_pooled(url) else _NAMES | session_parameters(settings),
    }


_NAMES: Final = {"application_name": "assent", "timezone": "UTC"}


def session_parameters(settings: Settings) -> dict[str, str]:
    """Return what is set for each session, or, through a pooler, for each transaction."""
    return {
        # Our statements are short; compiling one takes longer than running it.
        "jit": "off",
        # A plan that was made while tables were small would be kept when they are large. With an org's id in
        # front of every index, all look alike to it then: 500 entities took 104 ms by the wrong one, 24 by theirs.
        # Commands, which look up a few rows by key, keep plans for seconds (`Database.transaction`).
        "plan_cache_mode": FRESH_PLANS,
        "statement_timeout": str(settings.statement_timeout_ms),
        "lock_timeout": str(settings.lock_timeout_ms),
        "idle_in_transaction_session_timeout": str(settings.idle_in_transaction_timeout_ms),
    }


async def _prepare(connection: Connection) -> None:
    found = connection.get_server_version().major
    if found < SERVER_VERSION_MIN:
        raise StoreError(
            f"Assent needs PostgreSQL {SERVER_VERSION_MIN} or newer, this server is version {found}. "
            "Name another one in ASSENT_DATABASE_URL, or unset it to use the embedded server"
        )
    await read_json(connection)


async def read_json(connection: Connection) -> None:
    """From here on the connection takes and gives JSON as values."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", format="binary", encoder=_encode_jsonb, decoder=_decode_jsonb
    )
    await connection.set_type_codec(
        "json", schema="pg_catalog", format="binary", encoder=encode_json, decoder=orjson.loads
    )


async def forget_json(connection: Connection) -> None:
    """From here on the connection takes and gives JSON as text, as asyncpg does by itself."""
    await connection.reset_type_codec("jsonb", schema="pg_catalog")
    await connection.reset_type_codec("json", schema="pg_catalog")


def _encode_jsonb(value: object) -> bytes:
    return _JSONB_VERSION + encode_json(value)


def encode_json(value: object) -> bytes:
    """Return a value as JSON."""
    return orjson.dumps(value.value if isinstance(value, Json) else value, default=_as_plain)


def _as_plain(value: object) -> str:
    # asyncpg has a UUID class of its own, which orjson does not take for one.
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _decode_jsonb(data: bytes) -> Any:
    return orjson.loads(memoryview(data)[1:])


@contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ssl.SSLError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreError(
            f"Cannot connect to the database at {place(url)}: {str(error) or type(error).__name__}. "
            "Check that the server runs and that ASSENT_DATABASE_URL is right"
        ) from error


def place(url: str) -> str:
    """Host and database of a URL, without user and password, for messages."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2] or 'the local socket'}{parts.path}"
