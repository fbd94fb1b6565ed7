"""A connection that never waits for a server that has gone silent, and on which a COMMIT that rolls back is an error.

asyncpg gives up on a statement after its deadline, then asks the server to cancel it and waits for the answer on the
same connection, for another deadline. Here that wait, and every close, ends after `cancel_timeout_ms`: the connection
is dropped, so that whatever waits for it fails at once and its place in the pool is free.
"""

import asyncio
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from assent.store.errors import RolledBack
from assent.store.settings import Settings

if TYPE_CHECKING:
    _Base = asyncpg.Connection[asyncpg.Record]
else:
    _Base = asyncpg.Connection

KEEPALIVE_PROBES: Final = 3
"""Probes without an answer that end an idle connection, a third of `tcp_keepalive_ms` apart."""


@dataclass(slots=True)
class Vitals:
    """What is known of a connection's health; times are monotonic."""

    opened_s: float = field(default_factory=time.monotonic)
    used_s: float = field(default_factory=time.monotonic)
    """When it was last given back."""
    in_use: bool = False
    is_silent: bool = False
    """Whether it was dropped because the server did not answer."""
    is_condemned: bool = False
    """Whether it is to be dropped instead of used again."""
    lifetime_s: float | None = None


class LiveConnection(_Base):
    """A connection with a deadline for everything that it waits for."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.vitals = Vitals()
        self._socket = transport.get_extra_info("socket")
        self._cancel_timeout_s = 0.0
        self._giving_up: asyncio.TimerHandle | None = None

    def guard(self, settings: Settings) -> None:
        """Apply the deadlines of these settings, those of the socket included."""
        self._cancel_timeout_s = settings.cancel_timeout_ms / 1000
        _guard_socket(self._socket, settings)

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109 - asyncpg's
        """Run a statement; raise `RolledBack` for a COMMIT that the server replies with a rollback.

        PostgreSQL answers COMMIT with `ROLLBACK`, and no error, after a statement of the transaction failed: where code
        has caught that error, asyncpg would report success.
        """
        status: str = await super().execute(query, *args, timeout=timeout)
        if status == "ROLLBACK" and query.startswith("COMMIT"):
            raise RolledBack(
                "A statement of the transaction failed, and its error was caught: nothing was changed. "
                "Run statements that may fail inside `connection.transaction()`, a savepoint"
            )
        return status

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's own
        """Close the connection; a server that does not answer in time is left without a goodbye."""
        with suppress(TimeoutError):
            await super().close(timeout=timeout or self._cancel_timeout_s or None)

    @property
    def live(self) -> "LiveConnection":
        """The connection itself, also where a pool's proxy is asked."""
        return self

    @property
    def is_cancelling(self) -> bool:
        """Return whether a statement was abandoned, and the server has not confirmed its cancellation."""
        protocol: Any = self._protocol  # type: ignore[attr-defined]
        return protocol is not None and bool(protocol._is_cancelling())

    def terminate(self) -> None:
        """End the connection at once; one that is cancelling is ended because the server does not answer."""
        self.vitals.is_silent = self.vitals.is_silent or self.is_cancelling
        super().terminate()

    def _cancel_current_command(self, *waiters: Any) -> None:
        # asyncpg calls this after a deadline and when the caller is cancelled. From here on nothing else can use the
        # connection until the server confirms, so the time for that is ours to limit.
        super()._cancel_current_command(*waiters)  # type: ignore[misc]
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._cancel_timeout_s:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self._cancel_timeout_s, self._drop_if_cancelling)

    def _drop_if_cancelling(self) -> None:
        self._giving_up = None
        if self.is_cancelling:
            self.terminate()


def _guard_socket(connected: socket.socket | None, settings: Settings) -> None:
    """Have the kernel notice a peer that is gone: keepalive for an idle connection, a limit for unacknowledged data."""
    if connected is None or connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle_s = max(1, settings.tcp_keepalive_ms // 1000)
    wanted = {
        "TCP_KEEPIDLE": idle_s,
        "TCP_KEEPALIVE": idle_s,  # the same on macOS
        "TCP_KEEPINTVL": max(1, idle_s // KEEPALIVE_PROBES),
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
        "TCP_USER_TIMEOUT": settings.tcp_user_timeout_ms,
    }
    for name, value in wanted.items():
        # Not every system has all of them.
        if (option := getattr(socket, name, None)) is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
