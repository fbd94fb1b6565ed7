"""The outermost layer: no request larger than is taken, no answer kept by anybody on the way."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assent.http.problems import problem_reply
from assent.model.mutation import Rejection

_HEADERS: Final = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Limits:
    """Refuses bodies above a size, by what their header says and by what really comes."""

    def __init__(self, app: ASGIApp, request_bytes_max: int) -> None:
        self._app = app
        self._bytes_max = request_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _uncached(send)
        if self._is_too_large(scope):
            rejection = Rejection("REQUEST_TOO_LARGE", self._message)
            reply = problem_reply(rejection, scope["path"], headers={"connection": "close"})
            await reply.response()(scope, receive, answer)
            return
        await self._app(scope, self._counted(receive), answer)

    @property
    def _message(self) -> str:
        return f"a request may have {self._bytes_max:,} bytes"

    def _is_too_large(self, scope: Scope) -> bool:
        told = dict(scope["headers"]).get(b"content-length", b"0")
        return told.isdigit() and int(told) > self._bytes_max

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


def _uncached(send: Send) -> Send:
    async def uncached(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
        await send(message)

    return uncached
