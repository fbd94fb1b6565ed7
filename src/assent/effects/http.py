"""Sending requests over HTTP/1.1: one attempt, with timeouts, and with what is known about it when it fails.

httpcore is used without httpx's client on top: only here a network of our own can be put below it, and its trace
says whether a request had begun to be sent, which is what makes a failure ambiguous. Proxies of the environment are
not used, for behind a proxy no address could be judged.
"""

import asyncio
import ssl
import time
from dataclasses import dataclass, replace
from typing import Any

import httpcore
import httpx

from assent.effects.addresses import Allowed
from assent.effects.connections import ReceiverConnections
from assent.effects.guard import AddressRefused, GuardedBackend, Resolve, resolve
from assent.effects.redirects import follow
from assent.effects.requests import HttpRequest, HttpResponse
from assent.effects.settings import EffectSettings
from assent.jobs.job import Failed


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
    """As much of the body as is wanted. The status is known: whatever happens to the rest, the request did arrive."""
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
