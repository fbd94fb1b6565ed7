"""`assent serve` as operators run it: a process of its own, its log read line by line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import httpx

from tests.http.callers import AUDIENCE, ISSUER, SECRET, bearer, token
from tests.plain_sql import WAIT_MAX_S
from tests.processes.commands import RunningCommand, start_command

APP = ("--app", "tests.http.application:app")


class ServeProcess(RunningCommand):
    """A running `assent serve`."""

    url = ""

    def client(self, user: str, org: str = "acme", **more: Any) -> httpx.AsyncClient:
        headers = bearer(token(datetime.now(UTC), user, org, **more))
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=WAIT_MAX_S)


@asynccontextmanager
async def server(url: str, *arguments: str, **variables: str) -> AsyncIterator[ServeProcess]:
    """Start a server and wait until it serves; it is killed at the end, if it still runs."""
    process = await start(url, *APP, "--port", "0", *arguments, **variables)
    try:
        started = ServeProcess(process)
        said = await started.line("server started")
        started.url = f"http://{said['host']}:{said['port']}"
        yield started
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def start(url: str, *arguments: str, **variables: str) -> asyncio.subprocess.Process:
    known = {
        "ASSENT_HTTP_JWT_KEY": SECRET,
        "ASSENT_HTTP_JWT_ISSUER": ISSUER,
        "ASSENT_HTTP_JWT_AUDIENCE": AUDIENCE,
        "COLUMNS": "200",
        # Nobody reads the log of a test all the time, and a full pipe would stop the server.
        "ASSENT_HTTP_ACCESS_LOG": "off",
    }
    return await start_command(url, "serve", *arguments, **{**known, **variables})
