"""`/docs`: the API to read and to try in a browser. Its scripts come from a wheel, none from another host."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

_FILES: Final = "/docs/files"
_SHOWN: Final[dict[str, Any]] = {
    "displayRequestDuration": True,
    "docExpansion": "none",
    "filter": True,
    "tryItOutEnabled": True,
}


def add_reference(door: FastAPI) -> None:
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=f"{door.title}: the API",
        swagger_js_url=f"{_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{_FILES}/swagger-ui.css",
        swagger_favicon_url=f"{_FILES}/favicon-32x32.png",
        swagger_ui_parameters=_SHOWN,
    )

    @door.get("/docs", include_in_schema=False)
    async def show_reference() -> HTMLResponse:
        return page

    @door.get("/", include_in_schema=False)
    async def go_to_reference() -> RedirectResponse:
        return RedirectResponse("/docs")

    door.mount(_FILES, StaticFiles(packages=[("fastapi_swagger", "resources")]))
