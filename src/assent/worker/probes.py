"""What orchestrators and Prometheus ask a worker: `/healthz`, `/readyz` and `/metrics`, where a port is given."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import asyncpg
from pydantic_settings import SettingsConfigDict

from assent.model.problems import Invalid
from assent.operations.metrics_page import MetricsPage
from assent.store.database import Database
from assent.store.environment import EnvironmentSettings, number
from assent.store.errors import StoreError
from assent.store.migrate import read_schema_version, schema_mismatch

_log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 8_192
REQUEST_WITHIN_S: Final = 5.0
DATABASE_WITHIN_S: Final = 2.0
PLAIN: Final = "text/plain; charset=utf-8"


class ProbeSettings(EnvironmentSettings):
    """Where a worker listens: `ASSENT_METRICS_PORT`, and `ASSENT_METRICS_HOST` for others than this machine."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_METRICS_")

    port: int = number(0, 0, 65_535)
    """0, the default, means that the worker does not listen."""
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ProbeReply:
    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN


class Probes:
    """Answer one request on each connection, without authentication: no response holds data of an org or a member."""

    def __init__(self, database: Database, overdue: Callable[[], Sequence[str]] = tuple) -> None:
        self._database = database
        self._overdue = overdue
        self._page = MetricsPage(database)
        self._routes: dict[str, Callable[[], Awaitable[ProbeReply]]] = {
            "/healthz": self._alive,
            "/readyz": self._ready,
            "/metrics": self._metrics,
        }

    @asynccontextmanager
    async def serving(self, settings: ProbeSettings) -> AsyncIterator[int]:
        """Answer requests inside the context, and yield the port."""
        try:
            server = await asyncio.start_server(
                self._serve, settings.host, settings.port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            place = f"{settings.host}:{settings.port}"
            raise Invalid([settings.bad("port", f"cannot listen on {place}: {error.strerror}")]) from error
        port: int = server.sockets[0].getsockname()[1]
        _log.info("probes are answered", extra={"host": settings.host, "port": port})
        async with server:
            yield port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # A client that sends nothing, or too much, or disconnects, gets no response.
            with contextlib.suppress(
                TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
            ):
                async with asyncio.timeout(REQUEST_WITHIN_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_response(head, await self._answer(head)))
                    await writer.drain()
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> ProbeReply:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        route = self._routes.get(path)
        if route is None:
            return ProbeReply(HTTPStatus.NOT_FOUND, f"there are {', '.join(self._routes)}\n".encode())
        if method not in ("GET", "HEAD"):
            return ProbeReply(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        return await route()

    async def _alive(self) -> ProbeReply:
        if late := self._overdue():
            message = f"not finished a round in time: {', '.join(late)}\n"
            return ProbeReply(HTTPStatus.SERVICE_UNAVAILABLE, message.encode())
        return ProbeReply(HTTPStatus.OK, b"alive\n")

    async def _ready(self) -> ProbeReply:
        """Reply OK if the database responds and this program can use its schema."""
        try:
            async with (
                asyncio.timeout(DATABASE_WITHIN_S),
                self._database.transaction(None, read_only=True) as connection,
            ):
                schema = await read_schema_version(connection)
        except (TimeoutError, OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return ProbeReply(HTTPStatus.SERVICE_UNAVAILABLE, b"the database does not answer\n")
        if (mismatch := schema_mismatch(schema)) is not None:
            said = f"{mismatch.problem}; {mismatch.remedy}\n".encode()
            return ProbeReply(HTTPStatus.SERVICE_UNAVAILABLE, said)
        return ProbeReply(HTTPStatus.OK, b"ready\n")

    async def _metrics(self) -> ProbeReply:
        return ProbeReply(HTTPStatus.OK, *await self._page.render())


def _response(request: bytes, answer: ProbeReply) -> bytes:
    lines = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if request.startswith(b"HEAD ") else head + answer.body
