"""A worker as operators run it: a process of its own, its log read line by line."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.plain_sql import WAIT_MAX_S

ROOT = Path(__file__).parents[2]
ASSENT = Path(sys.executable).parent / "assent"


class Process:
    """A running `assent worker`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, message: str) -> dict[str, Any]:
        """The next line of its log with this message."""
        assert self._process.stderr is not None
        async with asyncio.timeout(WAIT_MAX_S):
            while text := await self._process.stderr.readline():
                with suppress(json.JSONDecodeError):
                    found: dict[str, Any] = json.loads(text)
                    if found["message"] == message:
                        return found
        raise AssertionError(f"the worker ended without saying {message!r}")

    def send(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    @property
    def runs(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> int:
        """Wait for its end; the exit code, or minus the signal that killed it."""
        async with asyncio.timeout(WAIT_MAX_S):
            await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode


@asynccontextmanager
async def worker(url: str, *arguments: str, **variables: str) -> AsyncIterator[Process]:
    """Start a worker and wait until it says so; it is killed at the end, if it still runs."""
    process = await _start(url, arguments, variables)
    try:
        started = Process(process)
        await started.line("worker started")
        yield started
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await process.communicate()


async def run(url: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run a worker to its end; exit code, standard output, standard error."""
    process = await _start(url, arguments, variables)
    async with asyncio.timeout(WAIT_MAX_S):
        out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


async def _start(
    url: str, arguments: tuple[str, ...], variables: dict[str, str]
) -> asyncio.subprocess.Process:
    environment = {**os.environ, "ASSENT_DATABASE_URL": url, "COLUMNS": "120", **variables}
    return await asyncio.create_subprocess_exec(
        *(ASSENT, "worker", *arguments),
        cwd=ROOT,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
