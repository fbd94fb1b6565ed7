"""The one table from codes to statuses. A code that is not here is about what was sent: 422."""

from collections.abc import Mapping
from typing import Final

UNPROCESSABLE: Final = 422

_CODES: Final[Mapping[int, tuple[str, ...]]] = {
    400: ("BAD_JSON", "BAD_REQUEST", "HOST_REFUSED"),
    401: ("NOT_SIGNED_IN", "TOKEN_REFUSED", "TOKEN_EXPIRED", "TOKEN_NOT_YET_VALID", "API_KEY_REFUSED"),
    403: (
        "POLICY_DENIED",
        "SEPARATION_OF_DUTIES",
        "NO_LONGER_QUALIFIED",
        "RULE_DENIED",
        "SCOPE_MISSING",
        "NOT_A_MEMBER",
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
        "ALREADY_STARTED",
        "AMEND_NOT_LOCKED",
        "APPROVAL_DECIDED",
        "APPROVAL_VOID",
        "CLAIMED",
        "DEFINITION_DERIVED",
        "DEFINITION_IMMUTABLE",
        "EFFECT_WAS_AWAITED",
        "FORM_CLOSED",
        "LAST_ADMINISTRATOR",
        "LOOK_ALIKE",
        "NOTHING_FAILED",
        "NOT_CLAIMABLE",
        "NOT_OWN_ENTITY",
        "NOT_YET_ASKED",
        "PROJECTION_BEHIND",
        "SHOWN_ONCE",
        "TASK_HAS_ENDED",
        "TASK_NOT_DEAD",
        "TASK_WAS_AWAITED",
        "TOO_MANY_KEYS",
        "VERSION_CONFLICT",
        "WORKFLOW_COMPILER_STALE",
        "WORKFLOW_EDIT_LOCKED",
        "WORKFLOW_HASH_MISMATCH",
        "WORKFLOW_NOT_ACTIVE",
        "WORKFLOW_NOT_COMPILED",
        "WORKFLOW_NOT_PAUSED",
        "WORKFLOW_NOT_PUBLISHED",
        "WORKFLOW_REQUIRED",
    ),
    410: ("INSTANCE_DELETED",),
    412: ("PRECONDITION_FAILED",),
    413: ("REQUEST_TOO_LARGE", "TOO_LARGE"),
    415: ("UNSUPPORTED_MEDIA_TYPE",),
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
    503: ("BUSY", "UNAVAILABLE", "OUTCOME_UNKNOWN", "KEYS_UNAVAILABLE"),
}

STATUS_OF: Final[Mapping[str, int]] = {code: status for status, codes in _CODES.items() for code in codes}

TITLES: Final[Mapping[int, str]] = {
    400: "Not understood",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Not this way",
    409: "Not as things stand",
    410: "Gone",
    412: "Somebody was faster",
    413: "Too large",
    415: "Not this form",
    422: "Not what was expected",
    428: "Which version?",
    429: "Too many requests",
    500: "Our mistake",
    503: "Not now",
}


def status_of(code: str) -> int:
    return STATUS_OF.get(code, UNPROCESSABLE)


def codes_of(status: int) -> tuple[str, ...]:
    return _CODES.get(status, ())
