"""Forms between the engine's values and their rows: loaded, written and closed, in sets."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

import asyncpg

from assent.approvals.requests import plain_number
from assent.approvals.seats import seat_from, write_seats
from assent.model.form import FormRequest
from assent.model.keys import RequestKey
from assent.model.values import plain_decimal
from assent.store.connect import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.approvals", "forms.sql")


@dataclass(frozen=True, slots=True)
class EndedForm:
    """How the step of a form ended."""

    org_id: str
    id: UUID
    answered: bool
    reason: str | None
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class FormView:
    """A form as whoever fills it in sees it."""

    org_id: str
    id: UUID
    instance_id: UUID
    workflow: str
    node_id: str
    node_name: str
    label: str | None
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int
    partition_id: str | None
    title: str | None
    figure: Any
    schema: Mapping[str, Any]
    answers: tuple[str, ...]
    requested_by: str
    asked: tuple[str, ...]
    """Who is asked now; whoever has the role may fill it in as well."""
    status: str
    reason: str | None
    claimed_by: str | None
    claimed_at: datetime | None
    draft: Mapping[str, Any] | None
    draft_by: str | None
    draft_at: datetime | None
    draft_problems: Sequence[Mapping[str, Any]] | None
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        found = {name: row[name] for name in cls.__dataclass_fields__ if name not in ("schema", "draft")}
        lists = {name: tuple(row[name]) for name in ("answers", "asked")}
        return cls(**found | lists, schema=row["schema_json"], draft=row["draft_json"])


async def load_forms(connection: Connection, steps: Collection[RequestKey]) -> dict[RequestKey, FormRequest]:
    """The forms that are open at these steps."""
    if not steps:
        return {}
    orgs, ids = map(list, zip(*steps, strict=True))
    rows = await connection.fetch(_SQL.load_forms, orgs, ids)
    return {(row["org_id"], row["id"]): _form_from(row) for row in rows}


async def read_form(connection: Connection, org_id: str, step_id: UUID) -> FormView | None:
    row = await connection.fetchrow(_SQL.read_form, org_id, step_id)
    return FormView.of(row) if row is not None else None


async def write_forms(
    connection: Connection, forms: Sequence[FormRequest], ended: Sequence[EndedForm], now: datetime
) -> None:
    """Make true what the engine decided about forms; those whose steps ended are closed, read before or not."""
    new = [_new_row(form) for form in forms if form.is_new]
    claimed = [_claim_row(form) for form in forms if form.changed and not form.is_new]
    drafts = [_draft_row(form) for form in forms if form.draft is not None]
    if new:
        await connection.execute(_SQL.insert_forms, new)
    if claimed:
        await connection.execute(_SQL.set_claims_of_forms, claimed)
    if drafts:
        await connection.execute(_SQL.keep_drafts, drafts)
    await write_seats(connection, "form", [(form.org_id, form) for form in forms], now)
    if ended:
        await connection.execute(_SQL.end_forms, [_ended_row(end) for end in ended])


def _form_from(row: Row) -> FormRequest:
    asked = row["assignee"]
    return FormRequest(
        org_id=row["org_id"],
        id=row["id"],
        instance_id=row["instance_id"],
        node_id=row["node_id"],
        node_name=row["node_name"],
        requested_by=row["requested_by"],
        created_at=row["created_at"],
        label=row["label"],
        entity_type=row["entity_type"],
        entity_id=row["entity_id"],
        entity_version=row["entity_version"],
        partition_id=row["partition_id"],
        title=row["title"],
        figure=plain_decimal(row["figure"]),
        due_at=row["due_at"],
        claimed_by=row["claimed_by"],
        claimed_at=row["claimed_at"],
        answers=tuple(row["answers"]),
        declared=asked["declared"],
        skipped=tuple(asked["skipped"]),
        seats=tuple(seat_from(seat) for seat in row["seats"]),
    )


def _new_row(form: FormRequest) -> dict[str, Any]:
    return {
        **_claim_row(form),
        "instance_id": form.instance_id,
        "node_id": form.node_id,
        "node_name": form.node_name,
        "label": form.label,
        "entity_type": form.entity_type,
        "entity_id": form.entity_id,
        "entity_version": form.entity_version,
        "partition_id": form.partition_id,
        "title": form.title,
        "figure": plain_number(form.figure),
        "schema_json": form.schema,
        "answers": form.answers,
        "assignee": _assignee(form),
        "requested_by": form.requested_by,
        "due_at": form.due_at,
        "created_at": form.created_at,
    }


def _assignee(form: FormRequest) -> dict[str, Any]:
    """Who was sought, and who was found when it was asked: frozen, whoever is reassigned later."""
    return {
        "declared": form.declared,
        "people": [{"user": seat.user_id, "via": seat.via} for seat in form.seats],
        "skipped": [dict(skipped) for skipped in form.skipped],
    }


def _claim_row(form: FormRequest) -> dict[str, Any]:
    return {
        "org_id": form.org_id,
        "id": form.id,
        "claimed_by": form.claimed_by,
        "claimed_at": form.claimed_at,
    }


def _draft_row(form: FormRequest) -> dict[str, Any]:
    assert form.draft is not None
    return {
        "org_id": form.org_id,
        "id": form.id,
        "draft_json": form.draft.data,
        "draft_by": form.draft.by,
        "draft_at": form.draft.at,
        "draft_problems": [problem.to_json() for problem in form.draft.problems],
    }


def _ended_row(end: EndedForm) -> dict[str, Any]:
    return {
        "org_id": end.org_id,
        "id": end.id,
        "status": "answered" if end.answered else "cancelled",
        "reason": end.reason,
        "ended_at": end.ended_at,
    }
