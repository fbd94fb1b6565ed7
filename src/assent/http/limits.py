"""The outermost layer: no request larger than is taken, no answer kept by anybody on the way."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assent.http.problems import problem_reply
from assent.model.mutation import Rejection

_CLOSE: Final = {"connection": "close"}
_HEADERS: Final = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
_OF_PAGES: Final = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
"""On every page of HTML; one that needs scripts brings a policy of its own."""


class LimitsMiddleware:
    """Refuses bodies above a size, by what their header says and by what really comes."""

    def __init__(self, app: ASGIApp, request_bytes_max: int) -> None:
        self._app = app
        self._bytes_max = request_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _uncached(send)
        if (rejection := self._refusal(dict(scope["headers"]))) is not None:
            reply = problem_reply(rejection, scope["path"], headers=_CLOSE)
            await reply.response()(scope, receive, answer)
            return
        await self._app(scope, self._counted(receive), answer)

    @property
    def _message(self) -> str:
        return f"a request may have {self._bytes_max:,} bytes"

    def _refusal(self, headers: Mapping[bytes, bytes]) -> Rejection | None:
        told = headers.get(b"content-length")
        if told is None:
            return None
        if b"transfer-encoding" in headers:
            # Two words on where a request ends: a proxy that takes the other one would hand us somebody else's.
            message = "expected Content-Length or Transfer-Encoding, found both"
            return Rejection("BAD_REQUEST", message)
        is_more = len(told) > len(str(self._bytes_max)) or (told.isdigit() and int(told) > self._bytes_max)
        return Rejection("REQUEST_TOO_LARGE", self._message) if is_more else None

    def _counted(self, receive: Receive) -> Receive:
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._bytes_max:
                # An HTTPException, for FastAPI takes every other error here for a body that is no JSON.
                raise HTTPException(413, self._message)
            return message

        return counted


def _is_page(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == b"content-type" and b"html" in value.lower() for name, value in headers)


def _uncached(send: Send) -> Send:
    async def uncached(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            if _is_page(headers):
                named = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in _OF_PAGES if name not in named]
            message = {**message, "headers": [*headers, *_HEADERS]}
        await send(message)

    return uncached
