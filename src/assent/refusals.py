"""Refusals as callers see them: the code of an error, and the HTTP status and title of a code.

HTTP and the command line share this table. A code that it does not name is about what was sent: 422.
"""

from collections.abc import Mapping
from typing import Final

import asyncpg

from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid
from assent.runtime.errors import ReceiptTaken, StepFailed
from assent.store.errors import OutcomeUnknown, StoreError
from assent.store.failures import LOST_AGAINST_OTHERS, is_outage

BUSY_STATES: Final = LOST_AGAINST_OTHERS | {"55P03", "57014"}
"""SQL states of a transaction that lost too many races or waited too long: nothing was written, a repeat may work."""
UNAVAILABLE: Final = (StoreError, ConnectionError, TimeoutError, asyncpg.InterfaceError)
"""Errors of a database that cannot be reached or used."""
UNPROCESSABLE: Final = 422

_CODES: Final[Mapping[int, tuple[str, ...]]] = {
    400: ("BAD_JSON", "BAD_REQUEST", "HOST_REFUSED", "UNKNOWN_VERSION"),
    401: (
        "NOT_SIGNED_IN",
        "TOKEN_REFUSED",
        "TOKEN_EXPIRED",
        "TOKEN_NOT_YET_VALID",
        "API_KEY_REFUSED",
        "SESSION_REFUSED",
    ),
    403: (
        "POLICY_DENIED",
        "SEPARATION_OF_DUTIES",
        "NO_LONGER_QUALIFIED",
        "RULE_DENIED",
        "SCOPE_MISSING",
        "NOT_A_MEMBER",
        "ORIGIN_REFUSED",
        "SIGNATURE_MISSING",
        "SIGNATURE_REFUSED",
        "FOUR_EYES_REQUIRED",
    ),
    404: ("NOT_FOUND", "UNKNOWN_ENTITY_TYPE", "UNKNOWN_ACTION", "NO_SUCH_ROUTE"),
    405: ("METHOD_NOT_ALLOWED",),
    409: (
        "ALREADY_ASKED",
        "ALREADY_DECIDED",
        "ALREADY_EXISTS",
        "ALREADY_HANDED_IN",
        "ALREADY_REVIEWED",
        "ALREADY_STARTED",
        "AMEND_NOT_LOCKED",
        "APPROVAL_DECIDED",
        "APPROVAL_VOID",
        "CLAIMED",
        "DEFINITION_DERIVED",
        "DEFINITION_IMMUTABLE",
        "EFFECT_WAS_AWAITED",
        "FILE_ERASED",
        "FORM_CLOSED",
        "LAST_ADMINISTRATOR",
        "LOOK_ALIKE",
        "NOTHING_FAILED",
        "NOT_CLAIMABLE",
        "NOT_OWN_ENTITY",
        "NOT_UNIQUE",
        "NOT_YET_ASKED",
        "PROJECTION_BEHIND",
        "QUESTION_CLOSED",
        "REQUIREMENT_STATUS",
        "SHOWN_ONCE",
        "TASK_HAS_ENDED",
        "SCHEDULE_DECLARED",
        "TASK_NOT_DEAD",
        "TASK_NOT_UNDER_WAY",
        "TASK_WAS_AWAITED",
        "TOO_MANY_ATTACHMENTS",
        "TOO_MANY_KEYS",
        "TOO_MANY_QUESTIONS",
        "UPLOAD_ABANDONED",
        "VERSION_CONFLICT",
        "VERSION_ERASED",
        "WORKFLOW_COMPILER_STALE",
        "WORKFLOW_EDIT_LOCKED",
        "WORKFLOW_HASH_MISMATCH",
        "WORKFLOW_NOT_ACTIVE",
        "WORKFLOW_NOT_COMPILED",
        "WORKFLOW_NOT_PAUSED",
        "WORKFLOW_NOT_PUBLISHED",
        "WORKFLOW_REQUIRED",
    ),
    410: ("INSTANCE_DELETED", "LINK_EXPIRED", "LINK_REVOKED", "REQUEST_ENDED"),
    412: ("PRECONDITION_FAILED",),
    413: ("FILE_TOO_LARGE", "REQUEST_TOO_LARGE", "TOO_LARGE"),
    415: ("UNSUPPORTED_MEDIA_TYPE",),
    416: ("RANGE_NOT_SATISFIABLE",),
    UNPROCESSABLE: (
        "AMBIGUOUS_STEP",
        "BAD_CURSOR",
        "INVALID_DECLARATION",
        "IDEMPOTENCY_KEY_REUSED",
        "ILLEGAL_TRANSITION",
        "INVALID_TRANSITION",
        "INVALID_REQUEST",
    ),
    428: ("IF_MATCH_REQUIRED",),
    429: ("TOO_MANY_REQUESTS",),
    500: ("UNEXPECTED", "STEP_FAILED"),
    503: (
        "BLOBS_UNAVAILABLE",
        "BUSY",
        "NEWER_CODE_NEEDED",
        "UNAVAILABLE",
        "OUTCOME_UNKNOWN",
        "KEYS_UNAVAILABLE",
    ),
}

STATUS_OF: Final[Mapping[str, int]] = {code: status for status, codes in _CODES.items() for code in codes}

TITLES: Final[Mapping[int, str]] = {
    400: "Malformed request",
    401: "Sign-in required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "Gone",
    412: "Version conflict",
    413: "Request too large",
    415: "Unsupported media type",
    416: "Range not satisfiable",
    422: "Invalid request",
    428: "Version required",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}


def status_of(code: str) -> int:
    """Return the HTTP status of a code."""
    return STATUS_OF.get(code, UNPROCESSABLE)


def codes_of(status: int) -> tuple[str, ...]:
    """Return the codes that have an HTTP status."""
    return _CODES.get(status, ())


def rejection_from(error: Exception, *, reveals_errors: bool = False) -> Rejection | None:
    """Return what an error means for the caller; None for an unexpected error.

    The text of an error may hold data of others: only a caller who operates the system gets it (`reveals_errors`).
    """
    match error:
        case Refused():
            return error.rejection
        case Invalid():
            return Rejection.of(error.problems)
        case StepFailed():
            raised = f" {type(error.error).__name__}: {error.error}" if reveals_errors else " an error"
            message = f"the step `{error.node_id}` raised{raised}; nothing was changed"
            return Rejection("STEP_FAILED", message, hint=None if reveals_errors else "see the server's log")
        case OutcomeUnknown():
            return _outcome_unknown(error, reveals_errors=reveals_errors)
        case ReceiptTaken():
            hint = f"run `assent rebuild {error.instance_id}`"
            return Rejection("PROJECTION_BEHIND", str(error), ("instance_id",), hint=hint)
    return _rejection_from_database(error, reveals_errors=reveals_errors)


def _outcome_unknown(error: OutcomeUnknown, *, reveals_errors: bool) -> Rejection:
    if reveals_errors:
        hint = "look whether it was done (`assent audit`, `assent instances show`) before you run it again"
        return Rejection("OUTCOME_UNKNOWN", str(error), hint=hint)
    message = "the database was lost at the commit; the command may have been carried out or not"
    if error.audit_id is not None:
        hint = f"it was carried out if the audit log has the entry {error.audit_id}"
    else:
        hint = "read what it changes before you repeat it"
    return Rejection("OUTCOME_UNKNOWN", message, hint=hint)


def _rejection_from_database(error: Exception, *, reveals_errors: bool) -> Rejection | None:
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate in BUSY_STATES:
        message = "other transactions are changing the same rows; nothing was changed"
        return Rejection("BUSY", message, hint="try again")
    if isinstance(error, asyncpg.DataError) and reveals_errors:
        return Rejection("BAD_VALUE", str(error))
    if isinstance(error, UNAVAILABLE) or (isinstance(error, asyncpg.PostgresError) and is_outage(error)):
        message = "the database cannot be used now; nothing was changed"
        if reveals_errors:
            # A deadline of asyncio has no text; PostgreSQL's has lines, and a message is one.
            message = (
                " ".join(str(error).split()) or "the database did not answer in time; nothing was changed"
            )
        return Rejection("UNAVAILABLE", message)
    return None
