"""Whatever goes wrong becomes a problem: refusals, bad requests, a busy database, and mistakes of ours."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from assent.http.problems import RefusedByHttp, problem_reply, summary_of
from assent.http.refusals import note_command
from assent.model.mutation import Refused, Rejection
from assent.model.problems import PROBLEMS_MAX, Problem
from assent.runtime.errors import StepFailed
from assent.store.errors import StoreError
from assent.store.retry import LOST_AGAINST_OTHERS
from assent.telemetry import telescope

_log = logging.getLogger(__name__)

BUSY_STATES: Final = LOST_AGAINST_OTHERS | {"55P03", "57014"}
"""Lost against others too often, or waited too long: nothing was written, and later it may well work."""

_CODES: Final[Mapping[str, str]] = {
    "missing": "MISSING_KEY",
    "extra_forbidden": "UNKNOWN_KEY",
    "string_pattern_mismatch": "BAD_VALUE",
    "literal_error": "BAD_VALUE",
    "enum": "BAD_VALUE",
    "value_error": "BAD_VALUE",
    "too_long": "TOO_LONG",
    "string_too_long": "TOO_LONG",
    "string_too_short": "TOO_SHORT",
    "greater_than_equal": "OUT_OF_RANGE",
    "less_than_equal": "OUT_OF_RANGE",
}
_OF_HTTP: Final[Mapping[int, str]] = {
    400: "BAD_JSON",
    404: "NO_SUCH_ROUTE",
    405: "METHOD_NOT_ALLOWED",
    413: "REQUEST_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
}


def handle_errors(app: FastAPI) -> None:
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


async def _refused(request: Request, error: Any) -> Response:
    headers = error.headers if isinstance(error, RefusedByHttp) else {}
    caller = getattr(request.state, "caller", None)
    if caller is not None and request.method not in ("GET", "HEAD"):
        await note_command(request.app.state.house.database, caller, request, error.rejection)
    return _problem(request, error.rejection, headers=headers)


async def _bad_request(request: Request, error: Any) -> Response:
    found: Sequence[Mapping[str, Any]] = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return _problem(request, Rejection("BAD_JSON", "the body is not JSON"))
    problems = [_field_problem(each) for each in found[:PROBLEMS_MAX]]
    message = problems[0].message if len(problems) == 1 else summary_of(len(found), "field")
    return _problem(request, Rejection("INVALID_REQUEST", message, problems=problems))


def _field_problem(found: Mapping[str, Any]) -> Problem:
    """The place begins with where it is: a part of the body goes without, the others are named."""
    where, *rest = found["loc"]
    path = tuple(rest) if where == "body" else (str(where), *rest)
    kind = found["type"]
    code = kind if kind.isupper() else _CODES.get(kind, "WRONG_TYPE")  # upper-case kinds are our own codes
    return Problem(code, str(found["msg"]), path, found.get("ctx", {}).get("hint"))


async def _http(request: Request, error: Any) -> Response:
    code = _OF_HTTP.get(error.status_code, "REFUSED")
    rejection = Rejection(code, str(error.detail))
    return _problem(request, rejection, status=error.status_code, headers=error.headers)


async def _database(request: Request, error: Any) -> Response:
    if error.sqlstate in BUSY_STATES:
        return _busy(request)
    return await _unexpected(request, error)


async def _no_database(request: Request, error: Any) -> Response:
    _log.warning("the database cannot be used", extra={"error": str(error)})
    rejection = Rejection("UNAVAILABLE", "the database cannot be used now")
    return _problem(request, rejection, headers={"retry-after": "5"})


def _busy(request: Request) -> Response:
    message = "others are at work on the same thing; nothing was changed"
    return _problem(request, Rejection("BUSY", message), headers={"retry-after": "1"})


async def _step_failed(request: Request, error: Any) -> Response:
    _log.error("a step raised", exc_info=error, extra={"node": error.node_id, "path": request.url.path})
    message = f"the step `{error.node_id}` raised an error; nothing was changed"
    return _problem(request, Rejection("STEP_FAILED", message, hint="the server's log says more"))


async def _unexpected(request: Request, error: Any) -> Response:
    _log.error("a request failed", exc_info=error, extra={"path": request.url.path})
    telescope.report(error, door="http")
    return _problem(request, Rejection("UNEXPECTED", "something went wrong here; nothing was changed"))


def _problem(
    request: Request,
    rejection: Rejection,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    return problem_reply(rejection, request.url.path, status=status, headers=headers).response()


_HANDLERS: Final[Mapping[type[Exception], Any]] = {
    Refused: _refused,
    RequestValidationError: _bad_request,
    HTTPException: _http,
    StepFailed: _step_failed,
    asyncpg.PostgresError: _database,
    asyncpg.InterfaceError: _no_database,
    StoreError: _no_database,
    ConnectionError: _no_database,
    Exception: _unexpected,
}
