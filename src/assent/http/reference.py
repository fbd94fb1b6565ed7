"""`/docs`: the API to read and to try in a browser. Its scripts come from a wheel, none from another host."""

import asyncio
import base64
import hashlib
import re
from typing import Any, Final

import orjson
from fastapi import FastAPI, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from assent.http.reply import JSON

_FILES: Final = "/docs/files"
_INLINE: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_SHOWN: Final[dict[str, Any]] = {
    "displayRequestDuration": True,
    "docExpansion": "none",
    "filter": True,
    "tryItOutEnabled": True,
}


def add_document(door: FastAPI) -> None:
    """`/openapi.json`, made once and beside the event loop: it takes most of a second, and anybody may ask for it."""
    making = asyncio.Lock()
    made: list[bytes] = []

    @door.get("/openapi.json", include_in_schema=False)
    async def show_document() -> Response:
        async with making:
            if not made:
                made.append(await asyncio.to_thread(lambda: orjson.dumps(door.openapi())))
        return Response(made[0], media_type=JSON)


def _policy(page: str) -> str:
    """Scripts of ours only, and the page's own by their hashes; nobody frames the page, and it calls nobody else."""
    scripts = _INLINE.findall(page)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    scripts_from = " ".join(["'self'", *(f"'sha256-{text}'" for text in hashes)])
    return (
        f"default-src 'none'; script-src {scripts_from}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def add_reference(door: FastAPI) -> None:
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=f"{door.title}: the API",
        swagger_js_url=f"{_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{_FILES}/swagger-ui.css",
        swagger_favicon_url=f"{_FILES}/favicon-32x32.png",
        swagger_ui_parameters=_SHOWN,
    )

    page.headers["content-security-policy"] = _policy(bytes(page.body).decode())

    @door.get("/docs", include_in_schema=False)
    async def show_reference() -> HTMLResponse:
        return page

    @door.get("/", include_in_schema=False)
    async def go_to_reference() -> RedirectResponse:
        return RedirectResponse("/docs")

    door.mount(_FILES, StaticFiles(packages=[("fastapi_swagger", "resources")]))
