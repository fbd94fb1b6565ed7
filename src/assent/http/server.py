"""The server: uvicorn on a socket, with bounded connections, and a worker in the same process if there is one.

uvicorn waits without end for the head of a request. A client that opens connections and sends nothing, or a byte a
second, would hold every file descriptor of the process; so heads and bodies have a time limit, and connections
a maximum number.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import h11
import psutil
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from assent.http.changes import ChangeFeed
from assent.http.middleware import ANY, AllowedHosts, hosts_of
from assent.http.request_bodies import MORE_TIME
from assent.http.settings import HttpSettings
from assent.worker.supervisor import Supervisor

BACKLOG: Final = 2048
FILES_RESERVED: Final = 128
"""File descriptors for the database, logs and everything else that is not a client connection."""
CLOSE_WITHIN_S: Final = 5.0
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 21\r\n"
    b"retry-after: 5\r\nconnection: close\r\n\r\nToo many connections\n"
)

Phase = Literal["head", "body"]


class ServerConnections:
    """The connections of one server."""

    def __init__(self, settings: HttpSettings) -> None:
        self.timeouts_s: dict[Phase, float] = {
            "head": settings.head_timeout_s,
            "body": settings.body_timeout_s,
        }
        self._max = connections_max(settings)
        self._open: set[ClientConnection] = set()
        self._waiting: OrderedDict[ClientConnection, None] = OrderedDict()
        """Connections without a request, the longest idle first."""

    def enter(self, connection: "ClientConnection") -> bool:
        """Return whether a connection is accepted; the longest idle one is closed for it if the server is full."""
        if len(self._open) >= self._max:
            if not self._waiting:
                return False
            silent, _ = self._waiting.popitem(last=False)
            silent.drop()
        self._open.add(connection)
        return True

    def leave(self, connection: "ClientConnection") -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def note(self, connection: "ClientConnection", phase: Phase | None) -> None:
        self._waiting.pop(connection, None)
        if phase == "head" and connection in self._open:
            self._waiting[connection] = None


class ClientConnection(H11Protocol):
    """One connection, with a time limit for each head and each body."""

    def __init__(self, *options: Any, connections: ServerConnections, **more: Any) -> None:
        super().__init__(*options, **more)
        self._all = connections
        self._phase: Phase | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._all.enter(self):
            self._watch()
        else:
            transport.write(_FULL)
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._all.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if (
            getattr(self, "scope", None) is not None
        ):  # of the request that has begun, whose handler runs after this
            self.scope[MORE_TIME] = self._give_more_time  # type: ignore[typeddict-unknown-key]
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._phase = None  # the next head has its own time limit
        self._watch()

    def drop(self) -> None:
        self._all.leave(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Start the time limit of a head or a body; a further byte does not extend it."""
        state = self.conn.their_state
        phase: Phase | None = "head" if state is h11.IDLE else "body" if state is h11.SEND_BODY else None
        if phase == self._phase:
            return
        self._phase = phase
        self._stop_timer()
        self._all.note(self, phase)
        if phase is not None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self._all.timeouts_s[phase], self._close)

    def _give_more_time(self) -> None:
        """Begin the time limit of a body again: a part of a file has come."""
        if self._phase == "body" and not self.transport.is_closing():
            self._stop_timer()
            self._timer = self.loop.call_later(self._all.timeouts_s["body"], self._close)

    def _close(self) -> None:
        """Close; a reply in the buffer has a few seconds to be sent."""
        self._all.leave(self)
        self.transport.close()
        self.loop.call_later(CLOSE_WITHIN_S, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connections_max(settings: HttpSettings) -> int:
    """Return the number of connections in the settings, bounded by the file descriptors of the process."""
    try:
        files_max, _ = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)
    except AttributeError:  # not every system has such a limit
        return settings.connections_max
    if files_max == psutil.RLIM_INFINITY:
        return settings.connections_max
    return max(1, min(settings.connections_max, files_max - FILES_RESERVED))


class CannotListen(Exception):
    """The port is in use, or the address does not exist; the message says what to do."""


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with the full backlog again: what asyncio was given is how many connections it accepts in a row."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller: the supervisor has to stop as well."""
        yield


class Serving:
    """The HTTP server on a port, and a worker in the same process if there is one."""

    def __init__(
        self,
        door: FastAPI,
        listening: socket.socket,
        settings: HttpSettings,
        worker: Supervisor | None = None,
    ) -> None:
        hosts = hosts_of(settings, listening.getsockname()[0])
        protocol: Any = partial(ClientConnection, connections=ServerConnections(settings))
        config = uvicorn.Config(
            door if ANY in hosts else AllowedHosts(door, hosts),
            http=protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            backlog=1,  # so that processes which share the socket share its connections
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=settings.grace_period_s,
        )
        self._server = _Server(config)
        self._changes: ChangeFeed = door.state.services.changes
        self._listening = listening
        self._worker = worker
        if worker is not None:
            door.state.overdue_duties = worker.overdue

    def stop(self) -> None:
        """Take no more requests; `run` returns after the replies to running requests."""
        self._server.should_exit = True
        self._changes.stop()  # or streams would stay open until the grace period is over
        if self._worker is not None:
            self._worker.stop()

    async def run(self) -> bool:
        """Serve until stopped; return False if the worker was stopped before it had finished."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._listening]), name="http")
        if self._worker is None:
            await serving
            return True
        working = asyncio.create_task(self._worker.run(), name="worker")
        # Neither ends by itself without an error; then the other is stopped too.
        await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        await serving
        return await working


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket to serve on; raise `CannotListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(
            f"Cannot serve on {host} port {port}: {error.strerror}. Name another with --port"
        ) from error
    # Accepted connections inherit it. asyncio would set it only where a socket says that it is TCP, and this one does
    # not; without it, the body of a reply waits 40 ms for the acknowledgement of its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
