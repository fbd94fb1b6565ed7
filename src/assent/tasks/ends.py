"""Waiting for the end of tasks, for all of a process at once: one connection listens, and one statement looks.

A process that waits for a task says so in a row of `task_waiters`; the transaction that ends the task sends a
notification where there is one. A notification may be lost, or be sent before the row was seen: so what is awaited is
looked at a few times shortly after the waiting began, after every reconnect, and every few seconds.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import asyncpg

from assent.store.database import Database
from assent.store.errors import StoreError
from assent.store.queries import load_queries

_log = logging.getLogger(__name__)
_SQL: Final = load_queries("assent.tasks", "tasks.sql")

CHANNEL: Final = "assent_task_ends"
FIRST_LOOKS_S: Final = (0.02, 0.1, 0.5)
"""How long after its beginning a wait is looked at: its row may have come just after the task had ended."""
LOOK_EVERY_S: Final = 5.0
RETRY_S: Final = 1.0
LINGER_S: Final = 10.0
"""How long the connection stays after the last wait."""
AWAY: Final = (StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError)

TaskId = tuple[str, UUID]
"""An org, and a task of it."""


@dataclass(eq=False)
class Wait:
    """One wait for the end of a task."""

    task: TaskId
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class TaskEnds:
    """The waits of a process. It listens while there are some, and for a while after the last."""

    def __init__(self, database: Database) -> None:
        self.database: Final = database
        self._waits: set[Wait] = set()
        self._listening: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def waiting(self, org_id: str, task_id: UUID) -> AsyncIterator[Wait]:
        """Wait for the end of a task inside the block: `ended` is set when it has ended, as far as is known."""
        wait = Wait((org_id, task_id))
        self._waits.add(wait)
        if self._listening is None or self._listening.done():
            self.database.before_close(self.close)
            self._listening = asyncio.create_task(self._listen(), name="task ends")
        try:
            async with self.database.transaction(org_id) as connection:
                await connection.execute(_SQL.wait_for_task, org_id, task_id)
            loop = asyncio.get_running_loop()
            for after_s in FIRST_LOOKS_S:
                loop.call_later(after_s, self._look_soon)
            yield wait
        finally:
            self._waits.discard(wait)

    async def close(self) -> None:
        """Stop listening; those who wait look no more."""
        running = {task for task in (self._listening, self._looking) if task is not None}
        self._listening = self._looking = None
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _listen(self) -> None:
        """Listen until nothing has been awaited for a while; without the database, try again."""
        has_ended = False
        while not has_ended:
            try:
                async with self.database.listen(CHANNEL) as listener:
                    idle_since_s = time.monotonic()
                    while self._waits or time.monotonic() - idle_since_s < LINGER_S:
                        heard = (await listener.hear(LOOK_EVERY_S)).get(CHANNEL)
                        self._wake(heard or set())
                        if heard is None or "" in heard:
                            self._look_soon()
                        if self._waits:
                            idle_since_s = time.monotonic()
                has_ended = True
            except AWAY as error:
                said = {"error": f"{type(error).__name__}: {error}"}
                _log.warning("not listening for the end of tasks", extra=said)
                await asyncio.sleep(RETRY_S)
                self._look_soon()

    def _wake(self, said: set[str]) -> None:
        for wait in self._waits:
            if str(wait.task[1]) in said:
                wait.ended.set()

    def _look_soon(self) -> None:
        """Look at what is awaited, unless that is being done."""
        if any(not wait.ended.is_set() for wait in self._waits) and (
            self._looking is None or self._looking.done()
        ):
            self._looking = asyncio.create_task(self._look(), name="look at task ends")

    async def _look(self) -> None:
        """Find which of all tasks that are awaited have ended, in one statement."""
        waits = [wait for wait in self._waits if not wait.ended.is_set()]
        orgs, ids = [wait.task[0] for wait in waits], [wait.task[1] for wait in waits]
        try:
            async with self.database.transaction(None, read_only=True) as connection:
                rows = await connection.fetch(_SQL.find_ended, orgs, ids)
        except AWAY as error:
            _log.warning("the end of tasks is not known", extra={"error": f"{type(error).__name__}: {error}"})
            return
        ended = {row["id"] for row in rows}
        for wait in waits:
            if wait.task[1] in ended:
                wait.ended.set()
