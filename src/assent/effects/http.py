"""Sending requests over HTTP/1.1: one attempt, with timeouts, redirects, and what is known about it when it fails.

httpcore is used without httpx's client on top: only here a network of our own can be put below it, and its trace
says whether a request had begun to be sent, which is what makes a failure ambiguous. Proxies of the environment are
not used, for behind a proxy no address could be judged.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import httpcore
import httpx

from assent.effects.addresses import Allowed
from assent.effects.guard import AddressRefused, GuardedBackend, Resolve, resolve
from assent.effects.requests import HttpRequest, HttpResponse, read_url
from assent.effects.settings import EffectSettings
from assent.jobs.job import Failed

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

FORWARDED: Final = frozenset({"accept", "accept-encoding", "content-type", "idempotency-key", "user-agent"})
"""The headers that another host gets to see: no signature, no credentials, nothing that an author put there."""


def follow(request: HttpRequest, answer: HttpResponse) -> HttpRequest | Failed | None:
    """Return the next request; none when this answer is the last. Its address is judged when it is connected to.

    A receiver that sends a POST on with 301 or 302 expects, by custom, a GET without the body: that would count as
    delivered and deliver nothing, so it is a failure that names the new place. 307 and 308 keep method and body.
    """
    if answer.status not in REDIRECTS:
        return None
    target = _target(request.url, answer.header("location"))
    if isinstance(target, Failed):
        return target
    if request.method != "GET" and answer.status in (301, 302):
        message = f"the receiver has moved to {target} ({answer.status}); a {request.method} does not follow it there"
        return Failed("MOVED", message, permanent=True)
    if request.url.scheme == "https" and target.scheme == "http":
        return Failed("INSECURE_REDIRECT", f"{target} is not encrypted, the way there was", permanent=True)
    headers = dict(request.headers)
    if origin(request.url) != origin(target):
        headers = {name: value for name, value in headers.items() if name.lower() in FORWARDED}
    if answer.status == 303:
        kept = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return HttpRequest("GET", target, kept)
    return HttpRequest(request.method, target, headers, request.body)


def _target(base: httpx.URL, location: str | None) -> httpx.URL | Failed:
    if not location:
        return Failed("BAD_REDIRECT", "the receiver redirects without saying where to", permanent=True)
    try:
        return read_url(str(base.join(location)))
    except (httpx.InvalidURL, ValueError) as error:
        return Failed("BAD_REDIRECT", f"{location!r} is no URL: {error}", permanent=True)


def origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


KEEPALIVE_S: Final = 5.0
"""Shorter than receivers keep an idle connection, so that few are lost in the moment they are used again."""

IDLE_MAX: Final = 200

Endpoint = tuple[bytes, bytes, int]


class ReceiverConnections:
    """Connections to receivers, kept for a moment after their use; each is used by one request at a time.

    httpcore's own pool looks at every connection that it has, for every request, and that squared: with fifty attempts
    under way to one receiver it took two thirds of a worker's time. Here a connection is one look-up away.
    """

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
        """Return the connection that was used last, unless it is too old or its other end is gone."""
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


@dataclass
class Progress:
    """How far an attempt has come."""

    sent: bool = False
    """Whether the request has begun to leave, and no answer to it was read yet."""
    answer: HttpResponse | None = None
    """What is known of the answer while its body is being read."""
    redirects: tuple[str, ...] = ()

    async def trace(self, event: str, _: Any) -> None:
        if event == "http11.send_request_headers.started":
            self.sent = True


class HttpSender:
    """Sends to everywhere that is allowed."""

    def __init__(
        self,
        settings: EffectSettings,
        *,
        allowed: Allowed | None = None,
        resolve: Resolve = resolve,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        network = GuardedBackend(settings.allow if allowed is None else allowed, resolve)
        self._connections = ReceiverConnections(network, ssl_context or httpx.create_ssl_context())

    async def close(self) -> None:
        await self._connections.close()

    async def send(
        self, request: HttpRequest, *, bytes_max: int, once: bool = False
    ) -> HttpResponse | Failed:
        """Make one attempt, and follow the redirects that it leads to.

        `once`: a repetition would do harm. On a connection that was idle a request may be lost before the receiver has
        seen it, and neither side could know; so such a request gets a fresh connection.
        """
        progress = Progress()
        try:
            async with asyncio.timeout(self._settings.total_timeout_ms / 1000):
                return await self._follow(request, progress, bytes_max, once)
        except AddressRefused as error:
            return Failed("ADDRESS_REFUSED", str(error), permanent=True)
        except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol, UnicodeError) as error:
            return Failed("BAD_REQUEST", f"this cannot be said over HTTP: {error}", permanent=True)
        except (httpcore.TimeoutException, TimeoutError) as error:
            return progress.answer or _unanswered("TIMEOUT", str(error) or "it took too long", progress)
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            return _unanswered("CONNECTION_FAILED", str(error) or type(error).__name__, progress)

    async def _follow(
        self, request: HttpRequest, progress: Progress, bytes_max: int, once: bool
    ) -> HttpResponse | Failed:
        started_s = time.monotonic()
        for _ in range(self._settings.redirects_max + 1):
            progress.sent, progress.answer = False, None
            answer = await self._exchange(request, progress, bytes_max, once)
            following = follow(request, answer)
            if following is None:
                took_ms = round((time.monotonic() - started_s) * 1000)
                return replace(answer, took_ms=took_ms, redirects=progress.redirects)
            if isinstance(following, Failed):
                return following
            request = following
            progress.redirects += (str(request.url),)
        return Failed("TOO_MANY_REDIRECTS", f"redirected {len(progress.redirects)} times", permanent=True)

    async def _exchange(
        self, request: HttpRequest, progress: Progress, bytes_max: int, once: bool
    ) -> HttpResponse:
        connect_s, silent_s = self._settings.connect_timeout_ms / 1000, self._settings.read_timeout_ms / 1000
        timeouts = {"connect": connect_s, "read": silent_s, "write": silent_s}
        given = httpcore.Request(
            request.method,
            _httpcore_url(request.url),
            headers=_raw_headers(request),
            content=request.body,
            extensions={"timeout": timeouts, "trace": progress.trace},
        )
        async with self._connections.stream(given, fresh=once) as response:
            progress.answer = HttpResponse(response.status, response.headers, cut="lost")
            return await _read(response, progress.answer, bytes_max)


async def _read(response: httpcore.Response, answer: HttpResponse, bytes_max: int) -> HttpResponse:
    """Read as much of the body as is wanted. The status is known: whatever happens to the rest, the request arrived."""
    body = bytearray()
    try:
        async for part in response.aiter_stream():
            body += part
            if len(body) > bytes_max:
                return replace(answer, body=bytes(body[:bytes_max]), cut="too large")
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
        return replace(answer, body=bytes(body))
    return replace(answer, body=bytes(body), cut="")


def _httpcore_url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _raw_headers(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    headers = [(b"host", request.url.netloc)]
    headers += [(name.encode("ascii"), value.encode()) for name, value in request.headers.items()]
    if request.body is not None or request.method != "GET":
        headers.append((b"content-length", str(len(request.body or b"")).encode()))
    return headers


def _unanswered(code: str, message: str, progress: Progress) -> Failed:
    evidence = {"redirects": list(progress.redirects)} if progress.redirects else {}
    return Failed(code, message, ambiguous=progress.sent, evidence=evidence)
