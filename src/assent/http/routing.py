"""Routes that ask who calls before anything of the body is read.

FastAPI reads and parses a body before it asks the dependencies. Here a route's admissions come first (sign-in, rates,
the token of a callback), then the body by its size, then what its bytes can say (a signature), and then its JSON.
"""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol, runtime_checkable

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from assent.http.desk import Services
from assent.http.json_bodies import read_json
from assent.http.problems import RefusedByHttp
from assent.model.mutation import Rejection


@runtime_checkable
class Admission(Protocol):
    """A dependency that says whose a request is, by its head alone."""

    async def admit(self, request: Request) -> None:
        """Raise `Refused` for a request whose body is not worth reading."""


@runtime_checkable
class Verification(Protocol):
    """A dependency that says whether a body is what its sender signed, by its bytes alone."""

    async def verify(self, request: Request) -> None:
        """Raise `Refused` for a body that is not worth parsing."""


class AdmittedRoute(APIRoute):
    """A route whose admissions run first."""

    takes_much = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        calls = list(dict.fromkeys(_calls(self.dependant)))
        admissions = [call for call in calls if isinstance(call, Admission)]
        verifications = [call for call in calls if isinstance(call, Verification)]
        takes_json = self.body_field is not None
        takes_much = self.takes_much and takes_json

        async def admitted(request: Request) -> Response:
            for admission in admissions:
                await admission.admit(request)
            if request.method not in ("GET", "HEAD"):
                settings = _house(request).settings
                much, little = settings.request_bytes_max, settings.small_request_bytes_max
                body = await _read(request, much if takes_much else min(much, little))
                for verification in verifications:
                    await verification.verify(request)
                if body and takes_json and _is_json(request):
                    request._json = read_json(body, settings.request_elements_max)
            return await handle(request)

        return admitted


class RouteOfMuch(AdmittedRoute):
    """A route for documents: its body may be as large as the door takes."""

    takes_much = True


class Router(APIRouter):
    """A router of such routes; `takes_much` where bodies are documents and not only a few words."""

    def __init__(self, *, takes_much: bool = False, **options: Any) -> None:
        super().__init__(route_class=RouteOfMuch if takes_much else AdmittedRoute, **options)


def _calls(dependant: Dependant) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield from _calls(each)
        yield each.call


def _house(request: Request) -> Services:
    house: Services = request.app.state.house
    return house


async def _read(request: Request, bytes_max: int) -> bytes:
    """The body, which is then in the request for everybody else."""
    told = request.headers.get("content-length", "0")
    if told.isdigit() and (len(told) > len(str(bytes_max)) or int(told) > bytes_max):
        raise _too_large(bytes_max)
    found = bytearray()
    try:
        async for part in request.stream():
            found += part
            if len(found) > bytes_max:
                raise _too_large(bytes_max)
    except ClientDisconnect:
        raise HTTPException(400, "the caller went before the body was there") from None
    request._body = bytes(found)
    return request._body


def _too_large(bytes_max: int) -> RefusedByHttp:
    rejection = Rejection("REQUEST_TOO_LARGE", f"a request to this route may have {bytes_max:,} bytes")
    return RefusedByHttp(rejection, connection="close")


def _is_json(request: Request) -> bool:
    """As FastAPI decides it; every other body is refused by the route's own shape."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.startswith("application/") and (kind == "application/json" or kind.endswith("+json"))
