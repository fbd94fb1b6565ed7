"""Middleware: limits of size, security headers, spans, the access log and the names of the server."""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assent.http.problems import problem_reply
from assent.http.settings import HttpSettings
from assent.model.mutation import Rejection
from assent.model.parse import shown
from assent.telemetry.spans import is_traceparent, span

_log = logging.getLogger(__name__)

PATH_LENGTH_MAX: Final = 500
ANY: Final = "*"
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_FILES: Final = (
    ("PUT", re.compile(r"/api/documents/[^/]+/versions$")),
    ("POST", re.compile(r"/uploads/[^/]+/[^/]+$")),
)
"""The routes whose bodies are files."""
_CLOSE: Final = {"connection": "close"}
_HEADERS: Final = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
_OF_PAGES: Final = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
"""The headers of every HTML page without its own policy."""


class LimitsMiddleware:
    """Refuses bodies above a size, by their header and by their bytes, and forbids caching where nothing allows it.

    Files are left to their routes, which read them after the sign-in and up to a limit of their own.
    """

    def __init__(self, app: ASGIApp, request_bytes_max: int) -> None:
        self._app = app
        self._bytes_max = request_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send_uncached = _uncached(send)
        takes_file = _takes_file(scope)
        if (rejection := self._refusal(dict(scope["headers"]), takes_file=takes_file)) is not None:
            reply = problem_reply(rejection, scope["path"], headers=_CLOSE)
            await reply.response()(scope, receive, send_uncached)
            return
        await self._app(scope, receive if takes_file else self._counted(receive), send_uncached)

    @property
    def _message(self) -> str:
        return f"a request may have {self._bytes_max:,} bytes"

    def _refusal(self, headers: Mapping[bytes, bytes], *, takes_file: bool) -> Rejection | None:
        announced = headers.get(b"content-length")
        if announced is None:
            return None
        if b"transfer-encoding" in headers:
            # Two lengths: a proxy that uses the other one would pass us a part of another caller's request.
            message = "expected Content-Length or Transfer-Encoding, found both"
            return Rejection("BAD_REQUEST", message)
        if takes_file:
            return None
        is_more = len(announced) > len(str(self._bytes_max)) or (
            announced.isdigit() and int(announced) > self._bytes_max
        )
        return Rejection("REQUEST_TOO_LARGE", self._message) if is_more else None

    def _counted(self, receive: Receive) -> Receive:
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._bytes_max:
                # An HTTPException, for FastAPI takes every other error here for a body that is not JSON.
                raise HTTPException(413, self._message)
            return message

        return counted


def _takes_file(scope: Scope) -> bool:
    return any(scope["method"] == method and place.search(scope["path"]) for method, place in _FILES)


def _is_page(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-type" and b"html" in value.lower() for name, value in headers)


def _uncached(send: Send) -> Send:
    async def uncached(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            named = {name.lower() for name, _ in headers}
            added = [*_OF_PAGES, *_HEADERS] if _is_page(headers) else _HEADERS
            headers += [(name, value) for name, value in added if name not in named]
            message = {**message, "headers": headers}
        await send(message)

    return uncached


class TracingMiddleware:
    """Opens a span for each request, below the caller's span in `traceparent`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        parent = header if is_traceparent(header) else None
        with span(f"HTTP {scope['method']}", parent=parent, kind="server") as opened:

            async def noted(message: Message) -> None:
                if opened is not None and message["type"] == "http.response.start":
                    opened.note(status=message["status"], route=_route(scope))
                await send(message)

            await self._app(scope, receive, noted)


def _route(scope: Scope) -> str:
    """Return the pattern of the route, not the path: ids make bad labels."""
    return str(getattr(scope.get("route"), "path", "none"))


class AccessLog:
    """Writes one line for each request, with the caller if known; never a body or a query."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _log.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            took_ms = round((time.perf_counter() - began) * 1000, 1)
            _log.info("request", extra={**_about_request(scope), "status": status, "took_ms": took_ms})


def _about_request(scope: Scope) -> dict[str, Any]:
    client, caller = scope.get("client"), scope.get("state", {}).get("caller")
    about = {"method": scope["method"], "path": _logged_path(scope), "place": client[0] if client else None}
    return about | ({"org": caller.org_id, "actor": caller.actor.id} if caller is not None else {})


def _logged_path(scope: Scope) -> str:
    """Return the path without the token of a callback or a link, which is a credential."""
    path: str = scope["path"]
    for tokens in ("/callbacks/", "/decide/", "/uploads/", "/downloads/"):
        if path.startswith(tokens):
            return f"{tokens}…"
    return path[:PATH_LENGTH_MAX]


class AllowedHosts:
    """Refuses requests to a server of another name.

    A foreign page can give its own name the address of this machine (DNS rebinding), and read our replies as its own.
    Its requests carry its name in `Host`.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._names = {host.lower() for host in hosts if not host.startswith("*.")}
        self._endings = tuple(host[1:].lower() for host in hosts if host.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if not self._is_allowed(_name_of(host)):
                message = f"this server is not called {shown(host)}"
                rejection = Rejection(
                    "HOST_REFUSED", message, hint="ASSENT_HTTP_ALLOWED_HOSTS names what it is called"
                )
                reply = problem_reply(rejection, scope["path"], headers={"connection": "close"})
                await reply.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_allowed(self, name: str) -> bool:
        return name in self._names or name.endswith(self._endings or ("\n",))


def hosts_of(settings: HttpSettings, bound: str) -> Sequence[str]:
    """Return the allowed names of a server: the setting; without it, loopback names for a server on loopback.

    Only the operator knows the names of a server that others reach or that is behind a proxy: any is allowed.
    """
    if settings.allowed_hosts:
        return settings.allowed_hosts
    if settings.trusted_proxies or not ip_address(bound).is_loopback:
        return (ANY,)
    return (*LOOPBACK, f"[{bound}]" if ":" in bound else bound)


def _name_of(host: str) -> str:
    """Return the name without the port."""
    name, colon, port = host.rpartition(":")
    bare = name if colon and port.isdigit() and (not name.count(":") or name.endswith("]")) else host
    return bare.lower().removesuffix(".")
