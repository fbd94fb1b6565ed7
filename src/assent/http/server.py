"""Serving: uvicorn on a socket of ours, stopped when we say so, with the supervisor beside it where that is wanted."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

from assent.http.changes import ChangeFeed
from assent.http.connections import Connection, ServerConnections
from assent.http.hosts import ANY, AllowedHosts, hosts_of
from assent.http.settings import HttpSettings
from assent.worker.supervisor import Supervisor

BACKLOG: Final = 2048


class CannotListen(Exception):
    """Somebody else has the port, or there is no such address; the message says what to do."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours to hear: the supervisor has to stop as well."""
        yield


class Serving:
    """The HTTP door on a port, and a worker in the same process if there is one."""

    def __init__(
        self,
        door: FastAPI,
        listening: socket.socket,
        settings: HttpSettings,
        worker: Supervisor | None = None,
    ) -> None:
        hosts = hosts_of(settings, listening.getsockname()[0])
        protocol: Any = partial(Connection, connections=ServerConnections(settings))
        config = uvicorn.Config(
            door if ANY in hosts else AllowedHosts(door, hosts),
            http=protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            backlog=BACKLOG,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=settings.grace_period_s,
        )
        self._server = _Server(config)
        self._changes: ChangeFeed = door.state.house.changes
        self._listening = listening
        self._worker = worker
        if worker is not None:
            door.state.overdue_duties = worker.overdue

    def stop(self) -> None:
        """Take no more requests; `run` returns when those that run have been answered."""
        self._server.should_exit = True
        self._changes.stop()  # or streams would keep us until the grace period is over
        if self._worker is not None:
            self._worker.stop()

    async def run(self) -> bool:
        """Serve until stopped. False when the worker was cut off before it had finished."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._listening]), name="http")
        if self._worker is None:
            await serving
            return True
        working = asyncio.create_task(self._worker.run(), name="worker")
        # Whichever ends by itself, which only a mistake does, takes the other with it.
        await asyncio.wait({serving, working}, return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        await serving
        return await working


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on, bound before anything else is begun; raises `CannotListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(
            f"Cannot serve on {host} port {port}: {error.strerror}. Name another with --port"
        ) from error
    # Accepted connections inherit it. asyncio would set it only where a socket says that it is TCP, and this one does
    # not; without it, the body of an answer waits 40 ms for the acknowledgement of its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
