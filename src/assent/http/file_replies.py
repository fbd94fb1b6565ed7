"""Replies with a file: always an attachment with a type that no browser executes, whole or a range of its bytes."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, cast

from fastapi import Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Send

from assent.http.problems import RefusedByHttp
from assent.http.routing import FILE_CONTENT
from assent.model.mutation import Rejection
from assent.runtime.file_commands import OpenedFile

TAKE_WITHIN_S: Final = 60.0
"""How long a client may take for one part; one that does not read is disconnected."""
FILE_HEADERS: Final = {
    "content-security-policy": "sandbox; default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "accept-ranges": "bytes",
}
FILE_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The file.", "content": FILE_CONTENT},
    206: {"description": "The range of the file that `Range` asks for.", "content": FILE_CONTENT},
    304: {"description": "The caller has it already, as `If-None-Match` says."},
}
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class FileReply(StreamingResponse):
    """The parts of a file as they come out of the store."""

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # Closed at once where the client has gone: the store's file is open until then.
        async with aclosing(cast(AsyncGenerator[bytes, None], self.body_iterator)) as parts:
            async for part in parts:
                async with asyncio.timeout(TAKE_WITHIN_S):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def reply_with_file(request: Request, opened: OpenedFile) -> Response:
    """Return a file, the range of it that was asked for, or that the caller has it already; raise `Refused`."""
    tag, size = f'"{opened.sha256}"', opened.size_bytes
    headers = {**FILE_HEADERS, "etag": tag, "content-disposition": opened.disposition}
    if tag in {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    asked = request.headers.get("range") if request.headers.get("if-range", tag) == tag else None
    part = _range_of(asked, size)
    if part is None:
        headers["content-length"] = str(size)
        return FileReply(await opened.begin(), 200, headers, media_type=opened.content_type)
    start, end = part
    headers |= {"content-range": f"bytes {start}-{end - 1}/{size}", "content-length": str(end - start)}
    return FileReply(await opened.part(start, end).begin(), 206, headers, media_type=opened.content_type)


def _range_of(asked: str | None, size: int) -> tuple[int, int] | None:
    """Return the range of bytes that a header asks for; None for the whole, as for several ranges."""
    found = _RANGE.fullmatch((asked or "").strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    if start >= end:
        rejection = Rejection("RANGE_NOT_SATISFIABLE", f"the file has {size:,} bytes", ("header", "range"))
        raise RefusedByHttp(rejection, **{"content-range": f"bytes */{size}"})
    return start, end
