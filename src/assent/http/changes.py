"""The feed of changes of instances, inboxes and tasks, for all streams of a process.

One connection listens, and one statement for each kind of topic reads, however many streams there are. It reads when
the outboxes are notified, and every second: a command that emits nothing sends no notification, and if each command
sent one, their commits would wait for each other.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from assent.http.problems import RefusedByHttp
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection, Database
from assent.store.errors import StoreError
from assent.store.queries import load_queries

_log = logging.getLogger(__name__)
_SQL: Final = load_queries("assent.http", "changes.sql")

CHANNELS: Final = ("assent_events", "assent_effects", "assent_task_notes")
LOOK_EVERY_S: Final = 1.0
LOOK_PAUSE_S: Final = 0.1
"""The pause between two reads, however many notifications arrive."""
STREAMS_MAX: Final = 1_000
STREAMS_OF_CALLER_MAX: Final = 20

AWAY: Final = (StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a stream: an instance, a task, or the inbox of a user."""

    org_id: str
    what: UUID | str
    partition_id: str | None = None
    """Of an inbox, the one partition that its owner sees; None for all."""
    is_task: bool = False


class Watched:
    """The last known state of a topic; None before the first read."""

    def __init__(self) -> None:
        self.seen: str | None = None
        self.streams = 0
        self._stopped = False
        self._changed = asyncio.Event()

    def set(self, seen: str) -> None:
        if seen != self.seen:
            self.seen = seen
            self._changed.set()
            self._changed = asyncio.Event()

    def stop(self) -> None:
        self._stopped = True
        self._changed.set()

    async def change(self, after: str | None, timeout_s: float) -> bool:
        """Wait for a change; return False at the timeout, or when the topic is no longer watched."""
        if self.seen == after and not self._stopped:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
        return self.seen != after


class ChangeFeed:
    """The watch of a process. It runs while there are streams, and ends with the last of them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._topics: dict[Topic, Watched] = {}
        self._callers: Counter[str] = Counter()
        self._watch: asyncio.Task[None] | None = None
        self.stopped = False

    @contextmanager
    def watching(self, topic: Topic, caller: str) -> Iterator[Watched]:
        """Watch a topic for one stream of a caller inside the block; raise `Refused` if there are too many."""
        self._refuse_too_many(caller)
        watched = self._topics.setdefault(topic, Watched())
        watched.streams += 1
        self._callers[caller] += 1
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._run(), name="changes")
        try:
            yield watched
        finally:
            self._leave(topic, watched, caller)

    def stop(self) -> None:
        """End every stream now."""
        self.stopped = True
        for watched in self._topics.values():
            watched.stop()

    def _refuse_too_many(self, caller: str) -> None:
        if self.stopped:
            raise Refused(Rejection("UNAVAILABLE", "the server is stopping"))
        if self._callers[caller] >= STREAMS_OF_CALLER_MAX or self._callers.total() >= STREAMS_MAX:
            message = f"expected at most {STREAMS_OF_CALLER_MAX} streams at a time"
            raise RefusedByHttp(Rejection("TOO_MANY_REQUESTS", message), **{"retry-after": "60"})

    def _leave(self, topic: Topic, watched: Watched, caller: str) -> None:
        self._callers[caller] -= 1
        if not self._callers[caller]:
            del self._callers[caller]
        watched.streams -= 1
        if not watched.streams:
            del self._topics[topic]
        if not self._topics and self._watch is not None:
            self._watch.cancel()

    async def _run(self) -> None:
        while True:
            try:
                async with self._database.listen(*CHANNELS) as listener:
                    while True:
                        await self._look()
                        await asyncio.sleep(LOOK_PAUSE_S)
                        await listener.wait(LOOK_EVERY_S)
            except AWAY as error:
                _log.warning(
                    "the feed of changes has no database", extra={"error": f"{type(error).__name__}: {error}"}
                )
                await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        instances = [topic for topic in self._topics if isinstance(topic.what, UUID) and not topic.is_task]
        tasks = [topic for topic in self._topics if topic.is_task]
        inboxes = [topic for topic in self._topics if isinstance(topic.what, str)]
        async with self._database.transaction(None, read_only=True) as connection:
            found = {
                **await look_at_instances(connection, instances),
                **await look_at_tasks(connection, tasks),
                **await look_at_inboxes(connection, inboxes, self._database.clock.now()),
            }
        for topic, watched in self._topics.items():
            if topic in found:
                watched.set(found[topic])


async def look_at_instances(connection: Connection, topics: Sequence[Topic]) -> Mapping[Topic, str]:
    """Return the version of each instance; a deleted one is left out."""
    if not topics:
        return {}
    rows = await connection.fetch(_SQL.look_at_instances, *_columns(topics))
    return {Topic(row["org_id"], row["id"]): str(row["version"]) for row in rows}


async def look_at_tasks(connection: Connection, topics: Sequence[Topic]) -> Mapping[Topic, str]:
    """Return a text for each task that changes with what its stream shows; a deleted one is left out."""
    if not topics:
        return {}
    rows = await connection.fetch(_SQL.look_at_tasks, *_columns(topics))
    return {Topic(row["org_id"], row["id"], is_task=True): row["seen"] for row in rows}


async def look_at_inboxes(
    connection: Connection, topics: Sequence[Topic], now: datetime
) -> Mapping[Topic, str]:
    """Return a text for each inbox that changes when an item is added or removed."""
    if not topics:
        return {}
    partitions = [topic.partition_id for topic in topics]
    rows = await connection.fetch(_SQL.look_at_inboxes, *_columns(topics), now, partitions)
    return {
        Topic(row["org_id"], row["user_id"], row["partition_id"]): f"{row['seats']} {row['newest']}"
        for row in rows
    }


def _columns(topics: Sequence[Topic]) -> tuple[list[str], list[UUID | str]]:
    return [topic.org_id for topic in topics], [topic.what for topic in topics]
