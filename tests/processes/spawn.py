"""Starting the tests' processes, telling them what to do, and killing them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

from assent.store.connection import Connection
from assent.store.database import Database
from tests.plain_sql import WAIT_MAX_S
from tests.processes.application import GATE

ROOT = Path(__file__).parents[2]


class Child:
    """One process with connections of its own to a test's database."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, database: Database, **variables: str) -> Self:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.processes", database.url, database.clock.now().isoformat()),
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        child = cls(process)
        assert await child._line() == {"answer": "ready"}
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, job: str, **arguments: Any) -> Any:
        """What the job answers; `refused: CODE` or an error as text where it fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"job": job, **arguments}, default=str).encode() + b"\n")
        line = await self._line()
        return line["answer"] if "answer" in line else line.get("refused") or line["error"]

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_MAX_S):
            text = await self._process.stdout.readline()
        if not text:
            raise ChildDied(await self._process.wait())
        found: dict[str, Any] = json.loads(text)
        return found

    async def wait(self) -> int:
        """Wait until it is gone, whoever ended it."""
        async with asyncio.timeout(WAIT_MAX_S):
            return await self._process.wait()

    async def kill(self) -> int:
        """SIGKILL, and wait until it is gone; minus the signal that ended it."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        # Not `communicate`: somebody may still wait for an answer that does not come any more.
        return await self._process.wait()


class ChildDied(Exception):
    """The process ended instead of answering."""


@asynccontextmanager
async def children(database: Database, number: int, **variables: str) -> AsyncIterator[list[Child]]:
    """So many processes, gone at the end however the test ends."""
    started = await asyncio.gather(*(Child.start(database, **variables) for _ in range(number)))
    try:
        yield list(started)
    finally:
        await asyncio.gather(*(child.kill() for child in started))


@asynccontextmanager
async def closed_gate(database: Database) -> AsyncIterator[Connection]:
    """Inside, whoever comes to `tests.gate` waits there, in the middle of its transaction."""
    async with database.transaction(None) as connection:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", GATE)
        yield connection


_BLOCKED = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


async def wait_until_blocked(observer: Connection, number: int) -> None:
    """Return as soon as so many connections wait for somebody's lock."""
    async with asyncio.timeout(WAIT_MAX_S):
        while await observer.fetchval(_BLOCKED) < number:
            # A transaction sees the activity as it was when it first looked.
            await observer.execute("SELECT pg_stat_clear_snapshot()")
