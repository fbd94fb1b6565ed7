"""The OpenAPI document with its examples, and `/docs`, which shows it in a browser with scripts from a wheel."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from assent.bodies.problems import ProblemBody
from assent.http.replies import JSON

Schema = Mapping[str, Any]

_DEPTH_MAX: Final = 6
"""The depth at which the example of a recursive shape ends."""
_FORMATS: Final = {
    "uuid": "01890a5d-ac96-774b-bcce-b302099a8057",
    "date-time": "2026-03-02T09:00:00Z",
    "date": "2026-03-02",
}
_PLAIN: Final[Mapping[str, Any]] = {"integer": 1, "number": 1, "boolean": True, "null": None, "string": "…"}
_FILES: Final = "docs/files"
"""Addresses on the page are relative to it, so that it works under the path where an application mounts the API."""
_INLINE: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_SHOWN: Final[dict[str, Any]] = {
    "displayRequestDuration": True,
    "docExpansion": "none",
    "filter": True,
    "tryItOutEnabled": True,
}


def add_document(door: FastAPI) -> None:
    """Add `/openapi.json`, made once and in a thread: it takes most of a second, and needs no sign-in."""
    making = asyncio.Lock()
    made: dict[str, bytes] = {}

    def make(path: str) -> bytes:
        servers = {"servers": [{"url": path}]} if path else {}
        return orjson.dumps(door.openapi() | servers)

    @door.get("/openapi.json", include_in_schema=False)
    async def show_document(request: Request) -> Response:
        path = root_path(request)
        async with making:
            if path not in made:
                made[path] = await asyncio.to_thread(make, path)
        return Response(made[path], media_type=JSON)


def root_path(request: Request) -> str:
    """Return the path under which an application has mounted the API; empty for none."""
    found: str = request.scope.get("root_path", "")
    return found.rstrip("/")


def _policy(page: str) -> str:
    """Return the policy of the page: own scripts, inline scripts by hash, no frames, no other hosts."""
    scripts = _INLINE.findall(page)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    scripts_from = " ".join(["'self'", *(f"'sha256-{text}'" for text in hashes)])
    return (
        f"default-src 'none'; script-src {scripts_from}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def add_reference(door: FastAPI) -> None:
    """Add `/docs`."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
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

    door.mount(f"/{_FILES}", StaticFiles(packages=[("fastapi_swagger", "resources")]))


def go_to_reference(door: FastAPI) -> None:
    """Lead from `/` to `/docs`, where there are no pages for people."""

    @door.get("/", include_in_schema=False)
    async def redirect(request: Request) -> RedirectResponse:
        return RedirectResponse(f"{root_path(request)}/docs")


def document_of(door: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the one shape of all problems and an example for every body."""
    if door.openapi_schema is None:
        document = get_openapi(
            title=door.title, version=door.version, description=door.description, routes=door.routes
        )
        schemas = document["components"]["schemas"]
        problem = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= problem.pop("$defs") | {"ProblemBody": problem}
        add_examples(document)
        door.openapi_schema = document
    return door.openapi_schema


def add_examples(document: dict[str, Any]) -> None:
    """Add an example, made from those of its fields, to every JSON body that has none."""
    schemas = document["components"]["schemas"]
    for content in _contents(document):
        if "example" not in content and "examples" not in content:
            content["example"] = example_of(content["schema"], schemas)


def _contents(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        for operation in methods.values():
            for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
                yield from (
                    found for kind, found in holder.get("content", {}).items() if kind == "application/json"
                )


def example_of(schema: Schema, schemas: Mapping[str, Schema], depth: int = 0) -> Any:
    """Return an example of a schema: every field, so it cannot differ from the schema."""
    if "examples" in schema:
        return schema["examples"][0]
    for word in ("example", "const", "default"):
        if word in schema:
            return schema[word]
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, depth)
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return example_of(schema[word][0], schemas, depth)
    return _of_type(schema, schemas, depth)


def _of_type(schema: Schema, schemas: Mapping[str, Schema], depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {}) if depth < _DEPTH_MAX else {}
        return {name: example_of(field, schemas, depth + 1) for name, field in fields.items()}
    if kind == "array":
        count = max(1 if depth < _DEPTH_MAX else 0, schema.get("minItems", 0))
        return [example_of(item, schemas, depth + 1) for item in _items(schema, count)]
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), _PLAIN["string"])
    return _PLAIN.get(str(kind), {})


def _items(schema: Schema, count: int) -> list[Schema]:
    return list(schema.get("prefixItems", ())) or [schema.get("items", {})] * count
