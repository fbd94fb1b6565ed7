"""Commands of `assent` as operators run them: in processes of their own, their logs read line by line."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.plain_sql import WAIT_MAX_S

ROOT = Path(__file__).parents[2]
ASSENT = Path(sys.executable).parent / "assent"


class RunningCommand:
    """A command that goes on until it is stopped: `assent worker`, `assent serve`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, message: str) -> dict[str, Any]:
        """Return the next line of its log with this message."""
        assert self._process.stderr is not None
        seen = []
        async with asyncio.timeout(WAIT_MAX_S):
            while text := await self._process.stderr.readline():
                seen.append(text.decode())
                with suppress(json.JSONDecodeError):
                    found: dict[str, Any] = json.loads(text)
                    if found["message"] == message:
                        return found
        raise AssertionError(f"the process ended without saying {message!r}: {''.join(seen)}")

    def send(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.returncode is None

    async def kill(self) -> None:
        """End it as a power failure does: no signal handler, no clean-up."""
        self.send(signal.SIGKILL)
        await self._process.communicate()

    async def ended(self) -> int:
        """Wait for its end; return the exit code, or minus the signal that killed it."""
        async with asyncio.timeout(WAIT_MAX_S):
            await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode


async def start_command(url: str, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    """Start `assent` with these arguments, on this database."""
    return await asyncio.create_subprocess_exec(
        *(ASSENT, *arguments),
        cwd=ROOT,
        env={**os.environ, "ASSENT_DATABASE_URL": url, "COLUMNS": "120", **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def run_command(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    """Run `assent` with these arguments to its end, on this database."""
    environment = {**os.environ, "ASSENT_DATABASE_URL": url, "COLUMNS": "120"}
    return subprocess.run(
        [ASSENT, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@asynccontextmanager
async def worker(url: str, *arguments: str, **variables: str) -> AsyncIterator[RunningCommand]:
    """Start a worker and wait until it says so; it is killed at the end, if it still runs."""
    process = await start_command(url, "worker", *arguments, **variables)
    try:
        started = RunningCommand(process)
        await started.line("worker started")
        yield started
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await process.communicate()


async def run_worker(url: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run a worker to its end; exit code, standard output, standard error."""
    process = await start_command(url, "worker", *arguments, **variables)
    async with asyncio.timeout(WAIT_MAX_S):
        out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()
