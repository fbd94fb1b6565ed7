"""Connections to the door: each has little time to say what it wants, and there are only so many of them.

uvicorn waits without end for the head of a request. A client that opens connections and says nothing, or a letter a
second, would hold every file descriptor of the process.
"""

import asyncio
from collections import OrderedDict
from typing import Any, Final, Literal

import h11
import psutil
from uvicorn.protocols.http.h11_impl import H11Protocol

from assent.http.settings import HttpSettings

FILES_RESERVED: Final = 128
"""File descriptors for the database, logs and everything else that is no connection of a caller."""
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
        self._open: set[Connection] = set()
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        """Those that have no request under way, the longest waiting first."""

    def enter(self, connection: "Connection") -> bool:
        """Whether there is room; the one that has waited longest with nothing to say makes some."""
        if len(self._open) >= self._max:
            if not self._waiting:
                return False
            silent, _ = self._waiting.popitem(last=False)
            silent.drop()
        self._open.add(connection)
        return True

    def leave(self, connection: "Connection") -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def note(self, connection: "Connection", phase: Phase | None) -> None:
        self._waiting.pop(connection, None)
        if phase == "head" and connection in self._open:
            self._waiting[connection] = None


class Connection(H11Protocol):
    """One connection, with a clock for each head and each body."""

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
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._phase = None  # the next head has time of its own
        self._watch()

    def drop(self) -> None:
        self._all.leave(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Start the clock where a head or a body has begun to be waited for; a letter more is no more time."""
        state = self.conn.their_state
        phase: Phase | None = "head" if state is h11.IDLE else "body" if state is h11.SEND_BODY else None
        if phase == self._phase:
            return
        self._phase = phase
        self._stop_timer()
        self._all.note(self, phase)
        if phase is not None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self._all.timeouts_s[phase], self._close)

    def _close(self) -> None:
        """What was answered may still leave, but not for ever."""
        self._all.leave(self)
        self.transport.close()
        self.loop.call_later(CLOSE_WITHIN_S, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connections_max(settings: HttpSettings) -> int:
    """As many as the settings say, and no more than this process has file descriptors for."""
    try:
        files_max, _ = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)
    except AttributeError:  # not every system has such a limit
        return settings.connections_max
    if files_max == psutil.RLIM_INFINITY:
        return settings.connections_max
    return max(1, min(settings.connections_max, files_max - FILES_RESERVED))
