"""Sending requests over HTTP/1.1: one attempt, with timeouts, and with what can be told about it when it fails.

httpcore is used without httpx's client on top: only here a network of our own can be put below it, and its trace
says whether a request had begun to be sent, which is what makes a failure ambiguous. Proxies of the environment are
not used, for behind a proxy no address could be judged.
"""

import asyncio
import ssl
import time
from dataclasses import dataclass, replace
from typing import Any, Final

import httpcore
import httpx

from assent.effects.addresses import Allowed
from assent.effects.guard import AddressRefused, GuardedBackend, Resolve, resolve
from assent.effects.outcome import Undelivered
from assent.effects.redirects import follow
from assent.effects.requests import Answer, Request
from assent.effects.settings import EffectSettings

KEEPALIVE_S: Final = 5.0
"""Shorter than receivers keep an idle connection, so that few are lost in the moment they are used again."""


@dataclass
class Progress:
    """How far an attempt has come."""

    sent: bool = False
    """Whether the request has begun to leave, and no answer to it was read yet."""
    answer: Answer | None = None
    """What is known of the answer while its body is being read."""
    redirects: tuple[str, ...] = ()

    async def trace(self, event: str, _: Any) -> None:
        if event == "http11.send_request_headers.started":
            self.sent = True


class HttpSender:
    """Connections to everywhere that is allowed. What must not be sent twice never uses one for the second time."""

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
        context = ssl_context or httpx.create_ssl_context()
        # On a connection that was idle a request may be lost without anybody having seen it, and nobody could tell.
        self._kept = httpcore.AsyncConnectionPool(
            context, max_connections=None, keepalive_expiry=KEEPALIVE_S, network_backend=network
        )
        self._fresh = httpcore.AsyncConnectionPool(
            context, max_connections=None, max_keepalive_connections=0, network_backend=network
        )

    async def close(self) -> None:
        await self._kept.aclose()
        await self._fresh.aclose()

    async def send(self, request: Request, *, bytes_max: int, once: bool = False) -> Answer | Undelivered:
        """One attempt, with the redirects that it leads to. `once`: a repetition would do harm."""
        progress = Progress()
        try:
            async with asyncio.timeout(self._settings.total_timeout_ms / 1000):
                return await self._follow(request, progress, bytes_max, self._fresh if once else self._kept)
        except AddressRefused as error:
            return Undelivered("ADDRESS_REFUSED", str(error), permanent=True)
        except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol, UnicodeError) as error:
            return Undelivered("BAD_REQUEST", f"this cannot be said over HTTP: {error}", permanent=True)
        except (httpcore.TimeoutException, TimeoutError) as error:
            return progress.answer or _unanswered("TIMEOUT", str(error) or "it took too long", progress)
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            return _unanswered("CONNECTION_FAILED", str(error) or type(error).__name__, progress)

    async def _follow(
        self, request: Request, progress: Progress, bytes_max: int, pool: httpcore.AsyncConnectionPool
    ) -> Answer | Undelivered:
        started_s = time.monotonic()
        for _ in range(self._settings.redirects_max + 1):
            progress.sent, progress.answer = False, None
            answer = await self._exchange(request, progress, bytes_max, pool)
            following = follow(request, answer)
            if following is None:
                took_ms = round((time.monotonic() - started_s) * 1000)
                return replace(answer, took_ms=took_ms, redirects=progress.redirects)
            if isinstance(following, Undelivered):
                return following
            request = following
            progress.redirects += (str(request.url),)
        return Undelivered(
            "TOO_MANY_REDIRECTS", f"redirected {len(progress.redirects)} times", permanent=True
        )

    async def _exchange(
        self, request: Request, progress: Progress, bytes_max: int, pool: httpcore.AsyncConnectionPool
    ) -> Answer:
        connect_s, silent_s = self._settings.connect_timeout_ms / 1000, self._settings.read_timeout_ms / 1000
        timeouts = {"connect": connect_s, "pool": connect_s, "read": silent_s, "write": silent_s}
        async with pool.stream(
            request.method,
            _httpcore_url(request.url),
            headers=[(name.encode("ascii"), value.encode()) for name, value in request.headers.items()],
            content=request.body,
            extensions={"timeout": timeouts, "trace": progress.trace},
        ) as response:
            progress.answer = Answer(response.status, response.headers, cut="lost")
            return await _read(response, progress.answer, bytes_max)


async def _read(response: httpcore.Response, answer: Answer, bytes_max: int) -> Answer:
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


def _unanswered(code: str, message: str, progress: Progress) -> Undelivered:
    evidence = {"redirects": list(progress.redirects)} if progress.redirects else {}
    return Undelivered(code, message, ambiguous=progress.sent, evidence=evidence)
