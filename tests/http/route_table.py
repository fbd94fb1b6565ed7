"""Every route of the door, from its own document, with a path that can be asked for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fastapi.routing import APIRoute

from assent.http.app import ROUTERS, bare_app
from tests.http.callers import SETTINGS

SOMETHING = str(UUID(int=7))
DOCUMENT: dict[str, Any] = bare_app(SETTINGS).openapi()
_NAMES = {
    "entity_type": "expense",
    "flow": "pair",
    "verb": "update",
    "name": "submit",
    "kind": "asked",
    "language": "en",
    "a": "1",
    "b": "1",
}


@dataclass(frozen=True)
class RouteOperation:
    """One method of one path."""

    method: str
    path: str
    operation: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def id(self) -> str:
        found: str = self.operation["operationId"]
        return found

    def url(self, **parameters: str) -> str:
        """The path with these parameters, and with some of the right kind for the others."""
        names = [
            parameter["name"]
            for parameter in self.operation.get("parameters", ())
            if parameter["in"] == "path"
        ]
        return self.path.format(
            **{name: parameters.get(name) or _NAMES.get(name, SOMETHING) for name in names}
        )

    @property
    def body(self) -> dict[str, Any] | None:
        """The schema of what it takes; none where it takes nothing, or a file."""
        if "application/json" not in self.operation.get("requestBody", {}).get("content", {}):
            return None
        found: dict[str, Any] = self.operation["requestBody"]["content"]["application/json"]["schema"]
        return _resolved(found)

    @property
    def is_signed_in(self) -> bool:
        return bool(self.operation.get("security"))

    @property
    def is_paged(self) -> bool:
        return any(parameter["name"] == "cursor" for parameter in self.operation.get("parameters", ()))


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _resolved(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return schema


def _operations() -> Iterator[RouteOperation]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield RouteOperation(method.upper(), path, operation)


ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
"""What handlers are registered under, in the order of the application."""
OPERATIONS = list(_operations())
WRITES = [operation for operation in OPERATIONS if operation.method != "GET"]
TAKING_BODIES = [operation for operation in WRITES if operation.body is not None]
PAGED = [operation for operation in OPERATIONS if operation.is_paged]
