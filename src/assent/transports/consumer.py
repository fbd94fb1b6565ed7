"""The consumer: what holds for every stream, whatever its broker.

At least once in: a batch is acknowledged when its COMMIT is known, and never before. A COMMIT of which the outcome is
unknown is not known: the batch is kept again. Once applied: the key of a result is taken once, so what comes twice is
`repeated`. A message that cannot be kept is a dead letter with its origin, in the same transaction, and the stream goes
on. Nothing more is read while a batch waits for the database.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

import asyncpg

from assent.model.problems import typed_error_text
from assent.requests.messages import (
    KEPT,
    StreamMessage,
    StreamSource,
    Unkept,
    bury_messages,
    keep_messages,
)
from assent.store.database import Connection, Database
from assent.telemetry import hooks

_log = logging.getLogger(__name__)

FAULTS_OF_DATA: Final = ("22", "23", "54")
"""How the SQLSTATE begins of an error that lies in what is written: its values, a constraint, a limit of a program."""


class StreamUnreachable(OSError):
    """A broker cannot be reached or refuses us; the message names the stream."""


class Transport(Protocol):
    """The connection to a broker for one stream; it connects when it is first used, and again after an error.

    Each raises `StreamUnreachable` where the broker does not do what it is asked.
    """

    async def fetch(self, limit: int, wait_s: float) -> list[StreamMessage]:
        """Return the next messages, at once where there are some; none where none came in this time."""

    async def acknowledge(self, messages: Sequence[StreamMessage], dead: Sequence[StreamMessage]) -> None:
        """Have the broker forget messages, of which some are dead letters now."""

    async def lag(self) -> int | None:
        """Return how many messages are still to be read; none where the broker does not say."""

    async def close(self) -> None:
        """Leave the group, and the broker."""


class Consumer:
    """Reads one stream for a worker."""

    def __init__(
        self, transport: Transport, source: StreamSource, database: Database, worker_id: UUID
    ) -> None:
        self.source = source
        self._transport = transport
        self._database = database
        self._worker_id = worker_id
        self._held: list[StreamMessage] = []
        """A batch that was read and is not known to be kept."""

    async def consume(self, limit: int, wait_s: float) -> Counter[str]:
        """Keep the next batch, and acknowledge it; return how many messages were accepted, repeated, late and dead."""
        try:
            counts = await self._consume(limit, wait_s)
        except Exception:
            self._note_read(up=False)
            raise
        self._note_read(up=True)
        return counts

    async def _consume(self, limit: int, wait_s: float) -> Counter[str]:
        if not self._held:
            self._held = await self._transport.fetch(limit, wait_s)
        if not self._held:
            return Counter()
        outcomes = await self._keep(self._held)
        messages, self._held = self._held, []
        dead = [one for one, outcome in zip(messages, outcomes, strict=True) if outcome not in KEPT]
        counts = Counter(outcome if outcome in KEPT else "dead" for outcome in outcomes)
        self._note(messages, outcomes, counts)
        await self._transport.acknowledge(messages, dead)
        return counts

    def _note_read(self, *, up: bool) -> None:
        if hooks.metrics is not None:
            hooks.metrics.stream_read(self.source.transport, self.source.stream, up=up)

    async def look(self) -> int | None:
        """Measure how much is still to be read."""
        lag = await self._transport.lag()
        if hooks.metrics is not None and lag is not None:
            hooks.metrics.stream_lag(self.source.transport, self.source.stream, lag)
        return lag

    async def close(self) -> None:
        """Leave the stream; what is held comes again, to another worker."""
        await self._transport.close()

    async def _keep(self, messages: Sequence[StreamMessage]) -> list[str]:
        """Keep a batch in one transaction; where something in it cannot be written, message by message."""
        try:
            return await self._keep_together(messages)
        except Exception as error:
            if not is_fault_of_data(error):
                raise
        return [await self._keep_alone(message) for message in messages]

    async def _keep_together(self, messages: Sequence[StreamMessage]) -> list[str]:
        async def work(connection: Connection) -> list[str]:
            return await keep_messages(connection, self.source, messages, self._worker_id)

        return await self._database.run(work, org_id=self.source.org_id)

    async def _keep_alone(self, message: StreamMessage) -> str:
        try:
            (outcome,) = await self._keep_together([message])
        except Exception as error:
            if not is_fault_of_data(error):
                raise
            why = Unkept("RESULT_FAILED", typed_error_text(error))
        else:
            return outcome

        async def bury(connection: Connection) -> None:
            await bury_messages(connection, self.source, [(message, why)], self._worker_id)

        await self._database.run(bury, org_id=self.source.org_id)
        return why.code

    def _note(self, messages: Sequence[StreamMessage], outcomes: Sequence[str], counts: Counter[str]) -> None:
        for message, outcome in zip(messages, outcomes, strict=True):
            if outcome not in KEPT:
                origin = f"{self.source}/{message.position}"
                fields = {"org_id": self.source.org_id, "origin": origin, "code": outcome}
                _log.warning("message is dead", extra=fields)
        if hooks.metrics is not None:
            hooks.metrics.stream_messages(self.source.transport, self.source.stream, counts)


def is_fault_of_data(error: BaseException) -> bool:
    """Return whether an error lies in what was to be written, and not in the database or in our code."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(FAULTS_OF_DATA)
    return isinstance(error, ValueError | RecursionError)


class Cadence:
    """Says when something is due that is done now and then, by the monotonic clock."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last_s: float | None = None

    def is_due(self) -> bool:
        """Return whether it is due; the next time is an interval after that."""
        now_s = time.monotonic()
        if self._last_s is not None and now_s - self._last_s < self._interval_s:
            return False
        self._last_s = now_s
        return True
