"""Services over HTTP as their OpenAPI documents describe them: from an operation and its input to a request. Pure.

Input is matched by name: parameters of the path, the query and the headers take theirs, what is left is the body.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from assent.effects.requests import read_url
from assent.jobs.job import Failed
from assent.model.job import OutsideWork
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid, Problem

METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE", "HEAD", "OPTIONS"})
"""Methods that do the same when they are done twice (RFC 9110, 9.2.2)."""

Headers = Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Headers of every call, such as credentials; a function is asked at each attempt, and nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    place: str
    """`path`, `query` or `header`."""
    required: bool


@dataclass(frozen=True, slots=True)
class ServiceOperation:
    """One call that a service offers."""

    service: str
    id: str
    method: str
    path: str
    parameters: tuple[Parameter, ...] = ()
    takes_body: bool = False

    def __call__(self, _: object, arguments: Mapping[str, Any]) -> OutsideWork:
        """Return what the effects worker is to send; refuse at once where the input does not fit."""
        given = {name: value for name, value in arguments.items() if value is not None}
        self._require_fitting(given)
        payload = {
            "service": self.service,
            "operation": self.id,
            "method": self.method,
            "path": self._path(given),
            "query": [pair for one in self._named("query", given) for pair in _pairs(one, given[one])],
            "headers": {one: _text(given[one]) for one in self._named("header", given)},
        }
        return OutsideWork(payload | self._body(arguments), self.method in REPEATABLE)

    def _named(self, place: str, given: Mapping[str, Any]) -> list[str]:
        return [p.name for p in self.parameters if p.place == place and p.name in given]

    def _path(self, given: Mapping[str, Any]) -> str:
        path = self.path
        for name in self._named("path", given):
            path = path.replace(f"{{{name}}}", _segment(given[name], name))
        return path

    def _body(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        known = {parameter.name for parameter in self.parameters}
        rest = {name: value for name, value in arguments.items() if name not in known}
        if not self.takes_body or not rest:
            return {}
        return {"body": rest["body"] if list(rest) == ["body"] else rest}

    def _require_fitting(self, given: Mapping[str, Any]) -> None:
        missing = [p.name for p in self.parameters if p.required and p.name not in given]
        known = {parameter.name for parameter in self.parameters}
        unknown = [] if self.takes_body else [name for name in given if name not in known]
        if missing or unknown:
            message = f"`{self.service}.{self.id}` needs {missing[0]}" if missing else ""
            message = message or f"`{self.service}.{self.id}` takes no {unknown[0]}"
            raise Refused(Rejection("INPUT_DOES_NOT_FIT", message, ("input", (missing or unknown)[0])))


@dataclass(frozen=True, slots=True)
class Service:
    """A service that an application registered."""

    name: str
    base_url: str
    host: str
    operations: tuple[ServiceOperation, ...] = ()
    headers: Headers = field(default_factory=dict)


def service_of(name: str, document: Mapping[str, Any], base_url: str, headers: Headers | None) -> Service:
    """Return the service that a document describes; raise `Invalid` where it describes none."""
    url = read_url(base_url)
    if isinstance(url, Failed):
        raise Invalid([Problem(url.code, url.message, (name, "base_url"))])
    operations = tuple(_operations(name, document))
    if not operations:
        message = f"the document of `{name}` has no operation with an operationId"
        raise Invalid([Problem("NO_OPERATIONS", message, (name, "paths"))])
    return Service(name, base_url.rstrip("/"), url.host, operations, headers or {})


def _operations(service: str, document: Mapping[str, Any]) -> Iterator[ServiceOperation]:
    for path, item in (document.get("paths") or {}).items():
        item = _resolved(document, item)  # noqa: PLW2901 - the same item, wherever it is written
        for method in METHODS:
            found = item.get(method)
            if found and "operationId" in found:
                shared = [*item.get("parameters", ()), *found.get("parameters", ())]
                parameters = {p.name: p for p in _parameters(document, shared)}
                takes_body = "requestBody" in found
                named = tuple(parameters.values())
                yield ServiceOperation(service, found["operationId"], method.upper(), path, named, takes_body)


def _parameters(document: Mapping[str, Any], declared: list[Any]) -> Iterator[Parameter]:
    for parameter in (_resolved(document, one) for one in declared):
        place, name = parameter.get("in"), parameter.get("name")
        if place in ("path", "query", "header") and name:
            yield Parameter(name, place, place == "path" or bool(parameter.get("required")))


def _resolved(document: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part that may be written elsewhere in the same document."""
    reference = part.get("$ref")
    if reference is None:
        return part
    if not str(reference).startswith("#/"):
        raise Invalid(
            [Problem("FOREIGN_REFERENCE", f"expected a reference within the document, found {reference}", ())]
        )
    found: Any = document
    for name in reference.removeprefix("#/").split("/"):
        found = found.get(name.replace("~1", "/").replace("~0", "~"), {})
    return found  # type: ignore[no-any-return]


def _pairs(name: str, value: Any) -> list[list[str]]:
    return [[name, _text(one)] for one in (value if isinstance(value, list) else [value])]


def _segment(value: Any, name: str) -> str:
    text = _text(value)
    if text in ("", ".", ".."):
        message = f"{text!r} cannot be a part of a path"
        raise Refused(Rejection("INPUT_DOES_NOT_FIT", message, ("input", name)))
    return quote(text, safe="")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
