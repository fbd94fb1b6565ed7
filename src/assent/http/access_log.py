"""The access log: one line for each request, with who called where that is known. It has no bodies and no queries."""

import logging
import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

PATH_LENGTH_MAX: Final = 500


class AccessLog:
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
            _log.info("request", extra={**_about(scope), "status": status, "took_ms": took_ms})


def _about(scope: Scope) -> dict[str, Any]:
    client, caller = scope.get("client"), scope.get("state", {}).get("caller")
    about = {"method": scope["method"], "path": _path(scope), "place": client[0] if client else None}
    return about | ({"org": caller.org_id, "actor": caller.actor.id} if caller is not None else {})


def _path(scope: Scope) -> str:
    """A callback's token is a right to do something, and belongs in no log."""
    path: str = scope["path"]
    return "/callbacks/…" if path.startswith("/callbacks/") else path[:PATH_LENGTH_MAX]
