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
from assent.store.errors import OutcomeUnknown, StoreError
from assent.store.outage import is_outage
from assent.store.retry import LOST_AGAINST_OTHERS
from assent.telemetry import hooks

_log = logging.getLogger(__name__)

BUSY_STATES: Final = LOST_AGAINST_OTHERS | {"55P03", "57014"}
"""Lost against others too often, or waited too long: nothing was written, and later it may well work."""

_SEND_A_KEY: Final = "with an `Idempotency-Key`, a repeat is safe"

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
    if _is_done(request) or is_outage(error):
        return await _no_database(request, error)
    if error.sqlstate in BUSY_STATES:
        return _busy(request)
    return await _unexpected(request, error)


async def _no_database(request: Request, error: Any) -> Response:
    _log.warning("the database cannot be used", extra={"error": str(error), "path": request.url.path})
    if _is_done(request):
        return _done_without_reply(request)
    message = "the database cannot be used now; nothing was changed"
    return _problem(request, Rejection("UNAVAILABLE", message), headers={"retry-after": "5"})


async def _outcome_unknown(request: Request, error: Any) -> Response:
    """Say that a command may have been carried out or not, and how to find out."""
    if request.method in ("GET", "HEAD") or _is_done(request):
        return await _no_database(request, error)
    about = {"path": request.url.path, "org_id": error.org_id, "audit_id": str(error.audit_id or "")}
    _log.error("the outcome of a command is unknown", extra=about)
    message = "the database was lost while this was being written; it may have been carried out or not"
    if "idempotency-key" in request.headers:
        hint = "repeat the same request with the same `Idempotency-Key`: it is carried out once"
    elif error.audit_id is not None:
        hint = f"it was carried out if the audit log has the entry {error.audit_id}; {_SEND_A_KEY}"
    else:
        hint = f"look at what it would have changed before you repeat it; {_SEND_A_KEY}"
    return _problem(request, Rejection("OUTCOME_UNKNOWN", message, hint=hint), headers={"retry-after": "5"})


def _done_without_reply(request: Request) -> Response:
    message = "this was carried out, but its answer could not be read"
    hint = (
        "read what it changed; a repeat with the same `Idempotency-Key`, where one was sent, gives the answer"
    )
    return _problem(request, Rejection("OUTCOME_UNKNOWN", message, hint=hint), headers={"retry-after": "5"})


def _is_done(request: Request) -> bool:
    """Return whether the request's command was committed before something went wrong."""
    return getattr(request.state, "is_done", False) is True


def _busy(request: Request) -> Response:
    message = "others are at work on the same thing; nothing was changed"
    return _problem(request, Rejection("BUSY", message), headers={"retry-after": "1"})


async def _step_failed(request: Request, error: Any) -> Response:
    _log.error("a step raised", exc_info=error, extra={"node": error.node_id, "path": request.url.path})
    message = f"the step `{error.node_id}` raised an error; nothing was changed"
    return _problem(request, Rejection("STEP_FAILED", message, hint="the server's log says more"))


async def _unexpected(request: Request, error: Any) -> Response:
    _log.error("a request failed", exc_info=error, extra={"path": request.url.path})
    hooks.report(error, door="http")
    became = (
        "this was carried out, but its answer could not be made"
        if _is_done(request)
        else "nothing was changed"
    )
    return _problem(request, Rejection("UNEXPECTED", f"something went wrong here; {became}"))


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
    OutcomeUnknown: _outcome_unknown,
    StoreError: _no_database,
    ConnectionError: _no_database,
    TimeoutError: _no_database,
    Exception: _unexpected,
}
