"""Requests between the engine's values and their rows: loaded, written and consumed, in sets."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from assent.approvals.seats import seat_from, write_seats
from assent.model.approval import ApprovalRequest, Decision, Group
from assent.model.keys import RequestKey
from assent.model.values import plain_decimal
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.approvals", "requests.sql")


async def load_requests(
    connection: Connection, generations: Mapping[RequestKey, int]
) -> dict[RequestKey, dict[UUID, ApprovalRequest]]:
    """Instance → step → what it asked in its present generation."""
    found: dict[RequestKey, dict[UUID, ApprovalRequest]] = {place: {} for place in generations}
    if generations:
        orgs, ids = zip(*generations, strict=True)
        rows = await connection.fetch(_SQL.load_requests, orgs, ids, list(generations.values()))
        for row in rows:
            found[row["org_id"], row["instance_id"]][row["step_id"]] = request_from(row)
    return found


async def read_status(connection: Connection, org_id: str, request_id: UUID) -> tuple[str, str | None]:
    """How a request stands, and why."""
    row = await connection.fetchrow(_SQL.read_status, org_id, request_id)
    return (row["status"], row["reason"]) if row else ("void", None)


async def write_requests(connection: Connection, requests: Sequence[ApprovalRequest], now: datetime) -> None:
    """Make true what the engine decided about requests; what is written already is not written again."""
    new = [_asked_row(request) for request in requests if request.is_new]
    changed = [_changed_row(request) for request in requests if request.changed]
    decisions = [_decision_row(request, d) for request in requests for d in request.new_decisions]
    if new:
        await connection.execute(_SQL.insert_requests, new)
    await write_seats(connection, "approval", [(request.org_id, request) for request in requests], now)
    if decisions:
        # Before the request ends: the database takes decisions on open requests only, and counts them then.
        await connection.execute(_SQL.insert_decisions, decisions)
    if changed:
        await connection.execute(_SQL.update_requests_if_live, changed)
    for request in requests:
        request.is_new = request.changed = False
        request.new_decisions = []


async def consume_requests(
    connection: Connection, requests: Sequence[ApprovalRequest], now: datetime
) -> set[UUID]:
    """Use approvals up in one conditional UPDATE; answers which could be."""
    orgs, ids = [request.org_id for request in requests], [request.id for request in requests]
    steps = [request.applied_step_id for request in requests]
    return {row["id"] for row in await connection.fetch(_SQL.consume_requests, orgs, ids, steps, now)}


async def mark_steps_applied(connection: Connection, requests: Sequence[ApprovalRequest]) -> None:
    orgs, at = [request.org_id for request in requests], [request.created_at for request in requests]
    steps = [request.step_id for request in requests]
    await connection.execute(_SQL.mark_steps_applied, orgs, at, steps)


def request_from(row: Row) -> ApprovalRequest:
    asked = row["approvers"]
    return ApprovalRequest(
        org_id=row["org_id"],
        id=row["id"],
        instance_id=row["instance_id"],
        step_id=row["step_id"],
        node_id=row["node_id"],
        node_name=row["node_name"],
        may_repeat=row["may_repeat"],
        token_id=row["token_id"],
        generation=row["generation"],
        slot=row["slot"],
        entity_version=row["entity_version"],
        groups=tuple(Group(**group) for group in asked["groups"]),
        requested_by=row["requested_by"],
        originators=frozenset(row["originators"]),
        created_at=row["created_at"],
        entity_type=row["entity_type"],
        entity_id=row["entity_id"],
        snapshot_version_id=row["snapshot_version_id"],
        content_hash=row["content_hash"],
        chain_id=row["chain_id"],
        partition_id=row["partition_id"],
        title=row["title"],
        figure=plain_decimal(row["figure"]),
        mode=row["mode"],
        due_at=row["due_at"],
        status=row["status"],
        reason=row["reason"],
        applied_at=row["applied_at"],
        applied_step_id=row["applied_step_id"],
        decided_at=row["decided_at"],
        claimed_by=row["claimed_by"],
        claimed_at=row["claimed_at"],
        skipped=tuple(asked["skipped"]),
        tier=asked["tier"],
        enough=asked.get("enough"),
        default=asked.get("default"),
        directory=asked.get("directory"),
        seats=tuple(seat_from(seat) for seat in row["seats"]),
        decisions=tuple(_decision_from(decision) for decision in row["decisions"]),
    )


def _decision_from(row: Row) -> Decision:
    return Decision(
        UUID(row["id"]),
        UUID(row["seat_id"]),
        row["approver_id"],
        row["decision"],
        datetime.fromisoformat(row["decided_at"]),
        row["on_behalf_of"],
        row["reason"],
        row["outcome"],
    )


def _asked_row(request: ApprovalRequest) -> dict[str, Any]:
    """What is asked. How it stands is written when it changes: every request begins open."""
    return {
        "org_id": request.org_id,
        "id": request.id,
        "instance_id": request.instance_id,
        "step_id": request.step_id,
        "node_id": request.node_id,
        "node_name": request.node_name,
        "may_repeat": request.may_repeat,
        "token_id": request.token_id,
        "generation": request.generation,
        "slot": request.slot,
        "entity_type": request.entity_type,
        "entity_id": request.entity_id,
        "entity_version": request.entity_version,
        "snapshot_version_id": request.snapshot_version_id,
        "content_hash": request.content_hash,
        "chain_id": request.chain_id,
        "mode": request.mode,
        "approvers": _asked(request),
        "requested_by": request.requested_by,
        "originators": sorted(request.originators),
        "partition_id": request.partition_id,
        "title": request.title,
        "figure": plain_number(request.figure),
        "due_at": request.due_at,
        "created_at": request.created_at,
    }


def _asked(request: ApprovalRequest) -> dict[str, Any]:
    """Who was found when it was asked, and what is enough: frozen, whoever is reassigned later."""
    return {
        "groups": [group.to_json() for group in request.groups],
        "people": [{"user": s.user_id, "group": s.group, "via": s.via} for s in request.seats],
        "skipped": [dict(skipped) for skipped in request.skipped],
        "tier": request.tier,
        "enough": request.enough,
        "default": request.default,
        "directory": request.directory,
    }


def plain_number(figure: Any) -> str | None:
    is_number = isinstance(figure, int | float | Decimal | str) and not isinstance(figure, bool)
    return str(figure) if is_number else None


def _changed_row(request: ApprovalRequest) -> dict[str, Any]:
    return {
        "org_id": request.org_id,
        "id": request.id,
        "status": request.status,
        "reason": request.reason,
        "applied_at": request.applied_at,
        "applied_step_id": request.applied_step_id,
        "decided_at": request.decided_at,
        "claimed_by": request.claimed_by,
        "claimed_at": request.claimed_at,
        "originators": sorted(request.originators),
    }


def _decision_row(request: ApprovalRequest, decision: Decision) -> dict[str, Any]:
    return {
        "org_id": request.org_id,
        "id": decision.id,
        "request_id": request.id,
        "seat_id": decision.seat_id,
        "approver_id": decision.approver_id,
        "on_behalf_of": decision.on_behalf_of,
        "decision": decision.answer,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "entity_version": request.entity_version,
        "decided_at": decision.decided_at,
    }
