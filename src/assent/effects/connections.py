"""Connections to receivers, kept for a moment after their use.

httpcore's own pool looks at every connection that it has, for every request, and that squared: with fifty attempts
under way to one receiver it took two thirds of a worker's time. Here a connection is one look-up away.
"""

import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpcore

KEEPALIVE_S: Final = 5.0
"""Shorter than receivers keep an idle connection, so that few are lost in the moment they are used again."""

IDLE_MAX: Final = 200

Endpoint = tuple[bytes, bytes, int]


class ReceiverConnections:
    """Every connection is used by one request at a time."""

    def __init__(self, network: httpcore.AsyncNetworkBackend, ssl_context: ssl.SSLContext) -> None:
        self._network = network
        self._ssl_context = ssl_context
        self._idle: dict[Endpoint, deque[httpcore.AsyncHTTPConnection]] = {}
        self._idle_count = 0

    async def close(self) -> None:
        for connection in [connection for some in self._idle.values() for connection in some]:
            await connection.aclose()
        self._idle.clear()
        self._idle_count = 0

    @asynccontextmanager
    async def stream(self, request: httpcore.Request, *, fresh: bool) -> AsyncIterator[httpcore.Response]:
        """Yield the response to a request. `fresh`: over a new connection, which no other request uses later."""
        origin = request.url.origin
        place = origin.scheme, origin.host, origin.port
        connection = None if fresh else await self._take(place)
        connection = connection or self._new(origin)
        try:
            response = await connection.handle_async_request(request)
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            if fresh or not connection.is_idle() or self._idle_count >= IDLE_MAX:
                await connection.aclose()
            else:
                self._idle.setdefault(place, deque()).append(connection)
                self._idle_count += 1

    async def _take(self, place: Endpoint) -> httpcore.AsyncHTTPConnection | None:
        """The connection that was used last, unless it is too old or its other end is gone."""
        waiting = self._idle.get(place, deque())
        while waiting:
            self._idle_count -= 1
            connection = waiting.pop()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        self._idle.pop(place, None)
        return None

    def _new(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        return httpcore.AsyncHTTPConnection(
            origin, ssl_context=self._ssl_context, keepalive_expiry=KEEPALIVE_S, network_backend=self._network
        )
