"""`assent serve` as operators run it: a process of its own, its log read line by line."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.http.callers import AUDIENCE, ISSUER, SECRET, bearer, token
from tests.plain_sql import WAIT_MAX_S

ROOT = Path(__file__).parents[2]
ASSENT = Path(sys.executable).parent / "assent"
APP = ("--app", "tests.http.application:app")


class Server:
    """A running `assent serve`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.url = ""

    async def line(self, message: str) -> dict[str, Any]:
        """The next line of its log with this message."""
        assert self._process.stderr is not None
        seen = []
        async with asyncio.timeout(WAIT_MAX_S):
            while text := await self._process.stderr.readline():
                seen.append(text.decode())
                with suppress(json.JSONDecodeError):
                    found: dict[str, Any] = json.loads(text)
                    if found["message"] == message:
                        return found
        raise AssertionError(f"the server ended without saying {message!r}: {''.join(seen)}")

    def client(self, user: str, org: str = "acme", **more: Any) -> httpx.AsyncClient:
        headers = bearer(token(datetime.now(UTC), user, org, **more))
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=WAIT_MAX_S)

    def send(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    async def kill(self) -> None:
        """As the machine's power going off would: no signal handler, no clean-up."""
        self.send(signal.SIGKILL)
        await self._process.communicate()

    async def ended(self) -> int:
        async with asyncio.timeout(WAIT_MAX_S):
            await self._process.communicate()
        assert self._process.returncode is not None
        return self._process.returncode


@asynccontextmanager
async def server(url: str, *arguments: str, **variables: str) -> AsyncIterator[Server]:
    """Start a server and wait until it serves; it is killed at the end, if it still runs."""
    process = await start(url, *APP, "--port", "0", *arguments, **variables)
    try:
        started = Server(process)
        said = await started.line("server started")
        started.url = f"http://{said['host']}:{said['port']}"
        yield started
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def start(url: str, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    known = {
        "ASSENT_DATABASE_URL": url,
        "ASSENT_HTTP_JWT_KEY": SECRET,
        "ASSENT_HTTP_JWT_ISSUER": ISSUER,
        "ASSENT_HTTP_JWT_AUDIENCE": AUDIENCE,
        "COLUMNS": "200",
        # Nobody reads the log of a test all the time, and a full pipe would stop the server.
        "ASSENT_HTTP_ACCESS_LOG": "off",
    }
    return await asyncio.create_subprocess_exec(
        *(ASSENT, "serve", *arguments),
        cwd=ROOT,
        env={**os.environ, **known, **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
