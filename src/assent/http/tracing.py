"""A span around each request, below whatever the caller is in: `traceparent` goes in, and on into the outbox."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assent.telemetry.spans import span
from assent.telemetry.traceparent import is_traceparent


class TracingMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        brought = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        parent = brought if is_traceparent(brought) else None
        with span(f"HTTP {scope['method']}", parent=parent, kind="server") as opened:

            async def noted(message: Message) -> None:
                if opened is not None and message["type"] == "http.response.start":
                    opened.note(status=message["status"], route=_route(scope))
                await send(message)

            await self._app(scope, receive, noted)


def _route(scope: Scope) -> str:
    """The route's pattern, not the path: ids belong to nobody's labels."""
    return str(getattr(scope.get("route"), "path", "none"))
