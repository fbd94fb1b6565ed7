"""The lives of things that have a status, as tables of allowed moves.

The function `status_may_move` of the schema, which the triggers of statuses call, is generated from here by
`make baseline`; the CHECK constraints list the same statuses. Tests try every pair in the database. A status that leads
nowhere is terminal.
"""

from collections.abc import Mapping

Moves = Mapping[str, frozenset[str]]


def _moves(**table: str) -> Moves:
    return {status: frozenset(targets.split()) for status, targets in table.items()}


INSTANCE_MOVES = _moves(
    running="paused completed failed cancelled",
    paused="running failed cancelled",
    completed="",
    failed="",
    cancelled="",
)

STEP_MOVES = _moves(
    pending="running completed cancelled skipped failed",
    running="completed failed skipped cancelled",
    completed="",
    failed="",
    skipped="",
    cancelled="",
)

EVENT_MOVES = _moves(
    pending="processing completed failed dead",
    processing="completed failed dead pending",
    completed="",
    failed="pending processing completed dead",
    dead="pending completed",
)
"""`dead → completed` is an event that a person discarded."""

DEFINITION_MOVES = _moves(draft="published archived", published="archived", archived="published")
"""`archived → published` is a rollback to an older version; nothing goes back to draft."""

REQUEST_MOVES = _moves(
    pending="approved rejected returned void cancelled",
    approved="void",
    rejected="",
    returned="",
    void="",
    cancelled="",
)
"""An edit voids an approval that no gate has consumed; one that was consumed stays (WF-03)."""

SEAT_MOVES = _moves(later="open closed", open="decided closed", decided="", closed="")

FORM_MOVES = _moves(open="answered cancelled", answered="", cancelled="")

OUTSIDE_REQUEST_MOVES = _moves(
    pending="partial completed failed expired cancelled",
    partial="completed failed expired cancelled",
    completed="",
    failed="",
    expired="",
    cancelled="",
)

REQUIREMENT_MOVES = _moves(
    missing="requested received waived",
    requested="received waived missing",
    received="in_qa waived missing",
    in_qa="verified rejected waived missing",
    verified="expired waived missing",
    rejected="requested received waived missing",
    expired="requested received waived missing",
    waived="missing",
)
"""`→ missing` is a reset by a person. A document may come before it was asked for, and after it was rejected."""

DOCUMENT_VERSION_MOVES = _moves(
    pending="in_qa verified rejected",
    in_qa="verified rejected",
    verified="",
    rejected="",
)

BLOB_MOVES = _moves(uploading="kept deleting", kept="deleting", deleting="deleted", deleted="")
"""`uploading → deleting` is an upload that came to nothing, `kept → deleting` the erasure of its version."""

JOB_MOVES = _moves(
    queued="running done cancelled",
    running="done retrying dead queued blocked background cancelled",
    blocked="queued cancelled dead",
    background="done retrying dead queued cancelled",
    retrying="queued running done dead cancelled",
    done="",
    cancelled="",
    dead="queued",
)
"""`retrying → running` is the next attempt, `running → queued` a claim that was given back, `dead → queued` a retry by
a person, `queued → done` an effect that a worker had sent whose lease was over."""

MOVES: Mapping[str, Moves] = {
    "workflow_instances": INSTANCE_MOVES,
    "workflow_step_executions": STEP_MOVES,
    "workflow_events_outbox": EVENT_MOVES,
    "workflow_definitions": DEFINITION_MOVES,
    "approval_requests": REQUEST_MOVES,
    "workflow_seats": SEAT_MOVES,
    "workflow_forms": FORM_MOVES,
    "outside_requests": OUTSIDE_REQUEST_MOVES,
    "document_requirements": REQUIREMENT_MOVES,
    "document_versions": DOCUMENT_VERSION_MOVES,
    "blobs": BLOB_MOVES,
    "jobs": JOB_MOVES,
}


def is_terminal(moves: Moves, status: str) -> bool:
    return not moves[status]
