"""Approval requests and seats between values and rows: loaded, written and consumed in sets; and read one by one.

Seats of approvals and of forms are rows of one table. `decisions_of_entity` says who approved what, exactly: one row
for each decision, with the version that it was about.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

import asyncpg

from assent.engine.consent import ENDED_BY_ANOTHER
from assent.model.approval import (
    UPDATED_FIELDS,
    Answer,
    ApprovalRequest,
    Decision,
    Group,
    RequestChanges,
    RequestStatus,
    Seat,
    SeatedRequest,
)
from assent.model.canonical import canonical_hash
from assent.model.ids import RequestKey
from assent.model.mutation import Rejection
from assent.model.values import plain_decimal
from assent.store.connection import Connection, put
from assent.store.queries import load_queries
from assent.store.rows import Row, RowValues, from_row, to_row

_SQL: Final = load_queries("assent.approvals", "approvals.sql")

SeatKind = Literal["approval", "form"]
ALREADY_CONSUMED: Final = "AS015"

_ASKED: Final = (
    *(
        "org_id",
        "id",
        "instance_id",
        "step_id",
        "node_id",
        "node_name",
        "may_repeat",
        "token_id",
        "generation",
        "slot",
    ),
    *(
        "entity_type",
        "entity_id",
        "entity_version",
        "snapshot_version_id",
        "content_hash",
        "chain_id",
        "mode",
    ),
    *("requested_by", "partition_id", "title", "currency", "due_at", "created_at"),
)
"""The fields of a new row whose columns have their names; its status is written when it changes."""

_OF_APPROVERS: Final = ("tier", "enough", "default", "directory")
"""The fields that are part of the column `approvers`."""

_SEAT: Final = ("id", "user_id", "position", "via", "status", "email", "note")


@dataclass(frozen=True, slots=True)
class ApprovalDetails:
    """A request, and its entity at the version that it is about."""

    request: ApprovalRequest
    snapshot: Mapping[str, Any] | None
    state: str | None
    answers: Sequence[str] = field(default=(), compare=False)
    """Where a reader asked for it: the answers that they may give now."""
    refusal: Rejection | None = field(default=None, compare=False)
    """Why they may not approve it now, if they may not."""


async def load_requests(
    connection: Connection, generations: Mapping[RequestKey, int]
) -> dict[RequestKey, dict[UUID, ApprovalRequest]]:
    """Return instance → step → the request of the step, in the present generation."""
    loaded: dict[RequestKey, dict[UUID, ApprovalRequest]] = {key: {} for key in generations}
    if generations:
        orgs, ids = zip(*generations, strict=True)
        rows = await connection.fetch(_SQL.load_requests, orgs, ids, list(generations.values()))
        for row in rows:
            loaded[row["org_id"], row["instance_id"]][row["step_id"]] = request_from(row)
    return loaded


async def read_request(connection: Connection, org_id: str, request_id: UUID) -> ApprovalDetails | None:
    row = await connection.fetchrow(_SQL.read_request, org_id, request_id)
    return ApprovalDetails(request_from(row), row["snapshot"], row["snapshot_state"]) if row else None


async def read_status(
    connection: Connection, org_id: str, request_id: UUID, reader: str
) -> tuple[str, str | None, str | None]:
    """Return the status of a request, its reason, and, to a reader who was asked, who ended it with which decision."""
    row = await connection.fetchrow(_SQL.read_status, org_id, request_id, reader, ENDED_BY_ANOTHER)
    if row is None:
        return "void", None, None
    if row["approver_id"] is None:
        return row["status"], row["reason"], None
    behalf = f" for {row['on_behalf_of']}" if row["on_behalf_of"] else ""
    step = f" at `{row['node_name']}`" if row["node_name"] else ""
    first = f"{row['approver_id']} was first{behalf}, with `{row['answer']}`{step}"
    return row["status"], row["reason"], first


async def find_requests(
    connection: Connection, org_id: str, first: UUID, last: UUID, limit: int
) -> list[UUID]:
    """Return the requests whose ids lie between two, both included."""
    rows = await connection.fetch(_SQL.find_requests_between, org_id, first, last, limit)
    return [row["id"] for row in rows]


async def requests_of_instance(
    connection: Connection, org_id: str, instance_id: UUID, limit: int
) -> Sequence[ApprovalDetails]:
    """Return the requests of an instance, the newest first."""
    rows = await connection.fetch(_SQL.list_requests_of_instance, org_id, instance_id, limit)
    return [ApprovalDetails(request_from(row), row["snapshot"], row["snapshot_state"]) for row in rows]


async def write_requests(connection: Connection, changes: Sequence[RequestChanges], now: datetime) -> None:
    """Write the changes of requests: new ones, seats, decisions, statuses."""
    if new := [_asked_row(change.request) for change in changes if change.is_new]:
        await put(connection, _SQL.insert_requests, new)
    await write_seats(connection, "approval", [(one.request, one.seats) for one in changes], now)
    if decisions := [_decision_row(change.request, d) for change in changes for d in change.decisions]:
        # Before the request ends: the database takes decisions on open requests only, and counts them then.
        await put(connection, _SQL.insert_decisions, decisions)
    if updated := [_updated_row(change.request) for change in changes if change.is_updated]:
        await put(connection, _SQL.update_requests_if_live, updated)


async def consume_requests(
    connection: Connection,
    requests: Mapping[UUID, tuple[ApprovalRequest, UUID]],
    now: datetime,
    refuse: Callable[[UUID], Exception],
) -> None:
    """Use approvals up in one conditional UPDATE, each for a step; raise what `refuse` says of one that is gone."""
    pairs = requests.values()
    orgs, ids = [request.org_id for request, _ in pairs], [request.id for request, _ in pairs]
    steps = [step_id for _, step_id in pairs]

    def explain(error: asyncpg.PostgresError) -> Exception | None:
        return refuse(UUID(error.detail)) if error.sqlstate == ALREADY_CONSUMED and error.detail else None

    await put(connection, _SQL.consume_requests, orgs, ids, steps, now, explain=explain)


async def use_link_if_unused(connection: Connection, org_id: str, request_id: UUID, user_id: str) -> bool:
    """Mark that a person decides on a request by a link in a mail; return False where they did before."""
    return await connection.fetchval(_SQL.use_link_if_unused, org_id, request_id, user_id) is True


async def is_link_used(connection: Connection, org_id: str, request_id: UUID, user_id: str) -> bool:
    """Return whether a person has decided on a request by a link in a mail."""
    return bool(await connection.fetchval(_SQL.is_link_used, org_id, request_id, user_id))


async def mark_steps_applied(connection: Connection, requests: Sequence[ApprovalRequest]) -> None:
    if not requests:
        return
    orgs, at = [request.org_id for request in requests], [request.created_at for request in requests]
    steps = [request.step_id for request in requests]
    await put(connection, _SQL.mark_steps_applied, orgs, at, steps)


async def write_seats(
    connection: Connection,
    kind: SeatKind,
    changed: Sequence[tuple[SeatedRequest, Sequence[Seat]]],
    now: datetime,
) -> None:
    """Write seats that are new or have another status, each with its request or form."""
    rows = [_seat_row(kind, asked, seat, now) for asked, seats in changed for seat in seats]
    if rows:
        await put(connection, _SQL.put_seats, rows)


def request_from(row: Row) -> ApprovalRequest:
    approvers = row["approvers"]
    return from_row(
        ApprovalRequest,
        row,
        groups=tuple(Group(**group) for group in approvers["groups"]),
        originators=frozenset(row["originators"]),
        figure=plain_decimal(row["figure"]),
        skipped=tuple(approvers["skipped"]),
        **{name: approvers[name] for name in _OF_APPROVERS},
        seats=tuple(seat_from(seat) for seat in row["seats"]),
        decisions=tuple(_decision_from(decision) for decision in row["decisions"]),
    )


def seat_from(row: Row) -> Seat:
    """Return a seat from a row that came as JSON."""
    replaces = UUID(row["replaces_id"]) if row["replaces_id"] else None
    return from_row(Seat, row, id=UUID(row["id"]), group=row["group_name"], replaces=replaces)


def _decision_from(row: Row) -> Decision:
    return from_row(
        Decision,
        row,
        id=UUID(row["id"]),
        seat_id=UUID(row["seat_id"]),
        answer=row["decision"],
        decided_at=datetime.fromisoformat(row["decided_at"]),
    )


def _asked_row(request: ApprovalRequest) -> RowValues:
    return to_row(
        request,
        only=_ASKED,
        approvers=_approvers(request),
        originators=sorted(request.originators),
        figure=plain_number(request.figure),
    )


def _approvers(request: ApprovalRequest) -> dict[str, Any]:
    """Return the people who were found when it was asked, and what is enough; it stays so when seats are reassigned."""
    return {
        "groups": [group.to_json() for group in request.groups],
        "people": [{"user": s.user_id, "group": s.group, "via": s.via} for s in request.seats],
        "skipped": [dict(skipped) for skipped in request.skipped],
        **{name: getattr(request, name) for name in _OF_APPROVERS},
    }


def plain_number(figure: Any) -> str | None:
    is_number = isinstance(figure, int | float | Decimal | str) and not isinstance(figure, bool)
    return str(figure) if is_number else None


def _updated_row(request: ApprovalRequest) -> RowValues:
    return to_row(request, only=("org_id", "id", *UPDATED_FIELDS), originators=sorted(request.originators))


def _decision_row(request: ApprovalRequest, decision: Decision) -> RowValues:
    return to_row(
        decision,
        org_id=request.org_id,
        request_id=request.id,
        decision=decision.answer,
        entity_version=request.entity_version,
    )


def _seat_row(kind: SeatKind, asked: SeatedRequest, seat: Seat, now: datetime) -> RowValues:
    return to_row(
        seat,
        only=_SEAT,
        org_id=asked.org_id,
        kind=kind,
        request_id=asked.id,
        instance_id=asked.instance_id,
        group_name=seat.group,
        replaces_id=seat.replaces,
        created_at=now,
        closed_at=now if seat.status in ("decided", "closed") else None,
    )


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """The decision of one person, what it was about, and its effect."""

    decision_id: UUID
    approver_id: str
    on_behalf_of: str | None
    answer: Answer
    outcome: str | None
    """An answer of the node's own, where the answer is `returned`."""
    reason: str | None
    decided_at: datetime
    group_name: str | None
    via: str | None
    """How the person, or the person represented, was found."""
    request_id: UUID
    instance_id: UUID
    step_id: UUID
    node_id: str
    node_name: str
    requested_by: str
    asked_at: datetime
    status: RequestStatus
    status_reason: str | None
    """Why the request ended as it did, such as `edited: version 4`."""
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int
    content_hash: str | None
    """Of what people had written at that version, which alone was approved."""
    snapshot: Mapping[str, Any] | None
    snapshot_hash: str | None
    state: str | None
    written_by: str | None
    applied_at: datetime | None
    applied_step_id: UUID | None
    """The step of the gate that the approval let pass."""

    @property
    def is_intact(self) -> bool:
        """Whether the snapshot is the one that its hash was made of."""
        return self.snapshot is None or canonical_hash(self.snapshot) == self.snapshot_hash


async def decisions_of_entity(
    connection: Connection,
    org_id: str,
    entity_id: UUID,
    *,
    after: tuple[datetime, UUID] | None = None,
    limit: int | None = None,
) -> Sequence[DecisionRecord]:
    """Return all decisions about an entity, the oldest first; or a page of them, after one of them."""
    rows = await connection.fetch(
        _SQL.read_evidence, org_id, entity_id, None, *(after or (None, None)), limit
    )
    return [DecisionRecord(**row) for row in rows]


async def decisions_of_request(
    connection: Connection, org_id: str, request_id: UUID
) -> Sequence[DecisionRecord]:
    """Return the decisions on one request, the oldest first."""
    rows = await connection.fetch(_SQL.read_evidence, org_id, None, request_id, None, None, None)
    return [DecisionRecord(**row) for row in rows]
