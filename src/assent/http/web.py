"""The pages for people: one page, whose script shows every address, and the files that it loads.

`make web` builds them from the folder `web` of the sources; the wheel has them. A file has a hash of its content in its
name, so browsers keep it for good. The page itself is never kept.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse

import assent
from assent.http.openapi import root_path

FOLDER: Final = Path(assent.__file__).parent / "web"
PAGE: Final = "index.html"
UPLOAD_PAGE: Final = "uploads.html"
"""Where an outside party hands in documents: with a script of its own, and without a session."""
ADDRESSES: Final = ("", "sign-in", "inbox", "documents", "clients", "instances", "incidents", "health")
"""The first part of every address that the page shows."""
LINKED: Final = {
    "approvals/{item:uuid}": "inbox/{item}",
    "entities/{entity_type}/{item:uuid}": "documents/{entity_type}/{item}",
    "forms/{item:uuid}": "inbox",
    "questions/{item:uuid}": "inbox",
    "inbox": "inbox",
}
"""What messages link to, below `app/{org}`, and the address that shows it. Forms and questions are in the inbox."""
BASE: Final = '<base href="/" />'
"""Addresses on the page are relative to it, so that it works under the path where an application mounts the API."""

_HEADERS: Final = {
    # Pictures of documents are shown from the memory of the browser (`blob:`), where they run nothing.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_UPLOAD_HEADERS: Final = {
    **_HEADERS,
    # The address is the credential.
    "referrer-policy": "no-referrer",
    "vary": "accept",
}
_FOR_GOOD: Final = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
_PACKED: Final = (("br", ".br"), ("gzip", ".gz"))
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9.]+")
_TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


def is_built() -> bool:
    """Return whether the pages were built; a checkout without `make web` has none."""
    return (FOLDER / PAGE).is_file()


@cache
def _page(name: str) -> str:
    text = (FOLDER / name).read_text(encoding="utf-8")
    if BASE not in text:
        raise RuntimeError(f"expected {BASE} in {FOLDER / name}; build it again with `make web`")
    return text


@cache
def _files() -> Mapping[str, Path]:
    return {file.name: file for file in (FOLDER / "assets").iterdir() if _NAME.fullmatch(file.name)}


def add_web(door: FastAPI, program_paths: Iterable[str]) -> None:
    """Add the page, at each of its addresses, and its files. What begins as a path of programs does is never a page."""
    door.state.has_pages = True

    async def show_page(request: Request) -> HTMLResponse:
        return _shown(request, 200)

    async def follow_link(request: Request) -> RedirectResponse:
        # The pattern of the path is of our own; what a caller wrote goes into the address quoted.
        pattern = request.scope["route"].path.removeprefix("/app/{org}/")
        parts = {name: quote(str(value), safe="") for name, value in request.path_params.items()}
        return RedirectResponse(f"{root_path(request)}/{LINKED[pattern].format(**parts)}")

    async def show_file(request: Request) -> Response:
        return _file_reply(request, request.path_params["name"])

    for address in ADDRESSES:
        for path in {f"/{address}", f"/{address}/{{rest:path}}" if address else "/"}:
            door.add_api_route(path, show_page, methods=["GET", "HEAD"], include_in_schema=False)
    for pattern in LINKED:
        path = f"/app/{{org}}/{pattern}"
        door.add_api_route(path, follow_link, methods=["GET", "HEAD"], include_in_schema=False)
    door.add_api_route("/assets/{name}", show_file, methods=["GET", "HEAD"], include_in_schema=False)
    found = {path.lstrip("/").partition("/")[0] for path in program_paths}
    door.state.program_parts = found | {"assets"}


def page_for(request: Request) -> Response | None:
    """Return the page, which says that there is nothing, for a browser at an unknown address; None for a program."""
    state = request.app.state
    first = request.url.path.removeprefix(root_path(request)).lstrip("/").partition("/")[0]
    is_for_people = getattr(state, "has_pages", False) and first not in state.program_parts
    return _shown(request, 404) if is_for_people and wants_page(request) else None


def wants_page(request: Request) -> bool:
    """Return whether a browser asks for a page, and the server shows pages."""
    asks = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
    return asks and getattr(request.app.state, "has_pages", False)


def upload_page(request: Request) -> HTMLResponse:
    """Return the page on which an outside party hands in documents."""
    return _shown(request, 200, UPLOAD_PAGE, _UPLOAD_HEADERS)


def _shown(
    request: Request, status: int, name: str = PAGE, headers: Mapping[str, str] = _HEADERS
) -> HTMLResponse:
    base = f'<base href="{escape(root_path(request))}/" />'
    return HTMLResponse(_page(name).replace(BASE, base), status, headers=dict(headers))


def _file_reply(request: Request, name: str) -> Response:
    """Return a file, packed as the browser takes it."""
    files = _files()
    if name not in files or name.endswith((".br", ".gz")):
        return Response(status_code=404, media_type="text/plain")
    taken = request.headers.get("accept-encoding", "")
    packed = next(((word, end) for word, end in _PACKED if word in taken and f"{name}{end}" in files), None)
    encoding = {"content-encoding": packed[0]} if packed else {}
    file = files[f"{name}{packed[1]}" if packed else name]
    media_type = _TYPES.get(Path(name).suffix, "application/octet-stream")
    return FileResponse(file, headers={**_FOR_GOOD, **encoding}, media_type=media_type)
