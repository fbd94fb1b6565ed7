"""Exception handlers: every exception becomes a problem, by the mapping of `assent.refusals`."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import asyncpg
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from assent.http.context import services_of
from assent.http.problems import RefusedByHttp, problem_reply, summary_of
from assent.http.refusals import note_command
from assent.http.web import page_for
from assent.model.mutation import Refused, Rejection
from assent.model.problems import PROBLEMS_MAX, Problem
from assent.refusals import rejection_from
from assent.runtime.errors import ReceiptTaken, StepFailed
from assent.store.errors import OutcomeUnknown, StoreError
from assent.telemetry import hooks

_log = logging.getLogger(__name__)

_RETRY_AFTER_S: Final[Mapping[str, str]] = {"BUSY": "1", "UNAVAILABLE": "5"}
_SEND_A_KEY: Final = "with an `Idempotency-Key`, a repeat is safe"
_REPEAT: Final = "repeat the same request with the same `Idempotency-Key`: it runs once"

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
    """Register the exception handlers."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


async def _refused(request: Request, error: Any) -> Response:
    headers = error.headers if isinstance(error, RefusedByHttp) else {}
    caller = getattr(request.state, "caller", None)
    if caller is not None and request.method not in ("GET", "HEAD"):
        await note_command(services_of(request).database, caller, request, error.rejection)
    return _problem(request, error.rejection, headers=headers)


async def _bad_request(request: Request, error: Any) -> Response:
    found: Sequence[Mapping[str, Any]] = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return _problem(request, Rejection("BAD_JSON", "the body is not JSON"))
    problems = [_field_problem(each) for each in found[:PROBLEMS_MAX]]
    message = problems[0].message if len(problems) == 1 else summary_of(len(found), "field")
    return _problem(request, Rejection("INVALID_REQUEST", message, problems=problems))


def _field_problem(found: Mapping[str, Any]) -> Problem:
    """Return a problem of a field; the path of a part of the body has no prefix."""
    where, *rest = found["loc"]
    path = tuple(rest) if where == "body" else (str(where), *rest)
    kind = found["type"]
    code = kind if kind.isupper() else _CODES.get(kind, "WRONG_TYPE")  # upper-case types are our own codes
    return Problem(code, str(found["msg"]), path, found.get("ctx", {}).get("hint"))


async def _http(request: Request, error: Any) -> Response:
    if error.status_code == 404 and (page := page_for(request)) is not None:
        return page
    code = _OF_HTTP.get(error.status_code, "REFUSED")
    rejection = Rejection(code, str(error.detail))
    return _problem(request, rejection, status=error.status_code, headers=error.headers)


async def _failed(request: Request, error: Any) -> Response:
    """Reply to an exception that the shared mapping knows; every other one is an internal error."""
    rejection = rejection_from(error)
    if isinstance(error, StepFailed | ReceiptTaken):
        _log.error("a step failed", exc_info=error, extra={"path": request.url.path})
    elif isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | StoreError | OSError):
        if rejection is not None or _is_done(request):
            _log.warning("the database failed", extra={"error": str(error), "path": request.url.path})
        if _is_done(request):
            return _done_without_reply(request)
    if rejection is None:
        return await _unexpected(request, error)
    headers = {"retry-after": _RETRY_AFTER_S[rejection.code]} if rejection.code in _RETRY_AFTER_S else {}
    return _problem(request, rejection, headers=headers)


async def _outcome_unknown(request: Request, error: Any) -> Response:
    """Reply that a command may have been carried out or not, and how to find out."""
    if request.method in ("GET", "HEAD") or _is_done(request):
        return await _failed(
            request, StoreError(str(error))
        )  # a read changes nothing, whether its COMMIT succeeded or not
    about = {"path": request.url.path, "org_id": error.org_id, "audit_id": str(error.audit_id or "")}
    _log.error("the outcome of a command is unknown", extra=about)
    rejection = rejection_from(error)
    assert rejection is not None
    hint = _REPEAT if "idempotency-key" in request.headers else f"{rejection.hint}; {_SEND_A_KEY}"
    return _problem(request, replace(rejection, hint=hint), headers={"retry-after": "5"})


def _done_without_reply(request: Request) -> Response:
    message = "the command was carried out, but its reply could not be read"
    hint = (
        "read what it changed; a repeat with the same `Idempotency-Key`, if one was sent, returns the reply"
    )
    return _problem(request, Rejection("OUTCOME_UNKNOWN", message, hint=hint), headers={"retry-after": "5"})


def _is_done(request: Request) -> bool:
    """Return whether the request's command was committed before something went wrong."""
    return getattr(request.state, "is_done", False) is True


async def _unexpected(request: Request, error: Any) -> Response:
    _log.error("a request failed", exc_info=error, extra={"path": request.url.path})
    hooks.report(error, door="http")
    became = (
        "the command was carried out, but its reply could not be made"
        if _is_done(request)
        else "nothing was changed"
    )
    return _problem(request, Rejection("UNEXPECTED", f"an internal error; {became}"))


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
    StepFailed: _failed,
    ReceiptTaken: _failed,
    asyncpg.PostgresError: _failed,
    asyncpg.InterfaceError: _failed,
    OutcomeUnknown: _outcome_unknown,
    StoreError: _failed,
    ConnectionError: _failed,
    TimeoutError: _failed,
    Exception: _unexpected,
}
