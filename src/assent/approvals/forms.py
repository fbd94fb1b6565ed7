"""Forms between values and rows: loaded, written and closed in sets; and read one by one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.approvals.requests import plain_number, seat_from, write_seats
from assent.model.form import FormChanges, FormRequest
from assent.model.ids import RequestKey
from assent.model.money import figure_text
from assent.model.values import plain_decimal
from assent.store.connection import Connection, put
from assent.store.queries import load_queries
from assent.store.rows import Row, RowValues, from_row, to_row

_SQL: Final = load_queries("assent.approvals", "approvals.sql")

_CLAIM: Final = ("org_id", "id", "claimed_by", "claimed_at")
_NEW: Final = (
    *(*_CLAIM, "instance_id", "node_id", "node_name", "label", "entity_type", "entity_id", "entity_version"),
    *("partition_id", "title", "currency", "answers", "requested_by", "due_at", "created_at"),
)
"""The fields of a new row whose columns have their names."""


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
    """A form as its filler sees it."""

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
    currency: str | None
    schema: Mapping[str, Any]
    answers: tuple[str, ...]
    requested_by: str
    asked: tuple[str, ...]
    """The people who are asked now; every person with the role may fill it in as well."""
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

    @property
    def figure_text(self) -> str | None:
        """The figure as people read it."""
        return figure_text(self.figure, self.currency)


async def load_forms(connection: Connection, steps: Collection[RequestKey]) -> dict[RequestKey, FormRequest]:
    """Return the forms that are open at these steps."""
    if not steps:
        return {}
    orgs, ids = map(list, zip(*steps, strict=True))
    rows = await connection.fetch(_SQL.load_forms, orgs, ids)
    return {(row["org_id"], row["id"]): _form_from(row) for row in rows}


async def read_form(connection: Connection, org_id: str, step_id: UUID) -> FormView | None:
    row = await connection.fetchrow(_SQL.read_form, org_id, step_id)
    if row is None:
        return None
    lists = {name: tuple(row[name]) for name in ("answers", "asked")}
    return from_row(FormView, row, **lists, schema=row["schema_json"], draft=row["draft_json"])


async def write_forms(
    connection: Connection, changes: Sequence[FormChanges], ended: Sequence[EndedForm], now: datetime
) -> None:
    """Write the changes of forms; the forms of steps that ended are closed, whether they were loaded or not."""
    if new := [_new_row(change.form) for change in changes if change.is_new]:
        await put(connection, _SQL.insert_forms, new)
    if claimed := [to_row(change.form, only=_CLAIM) for change in changes if change.is_claimed]:
        await put(connection, _SQL.set_claims_of_forms, claimed)
    if drafts := [_draft_row(change.form) for change in changes if change.has_draft]:
        await put(connection, _SQL.keep_drafts, drafts)
    await write_seats(connection, "form", [(change.form, change.seats) for change in changes], now)
    if ended:
        await put(connection, _SQL.end_forms, [_ended_row(end) for end in ended])


def _form_from(row: Row) -> FormRequest:
    assignee = row["assignee"]
    return from_row(
        FormRequest,
        row,
        step_id=row["id"],
        figure=plain_decimal(row["figure"]),
        answers=tuple(row["answers"]),
        declared=assignee["declared"],
        skipped=tuple(assignee["skipped"]),
        seats=tuple(seat_from(seat) for seat in row["seats"]),
    )


def _new_row(form: FormRequest) -> RowValues:
    return to_row(
        form,
        only=_NEW,
        figure=plain_number(form.figure),
        schema_json=form.schema,
        assignee=_assignee(form),
    )


def _assignee(form: FormRequest) -> dict[str, Any]:
    """Return the declared assignee, and the people who were found; it stays so when seats are reassigned."""
    return {
        "declared": form.declared,
        "people": [{"user": seat.user_id, "via": seat.via} for seat in form.seats],
        "skipped": [dict(skipped) for skipped in form.skipped],
    }


def _draft_row(form: FormRequest) -> RowValues:
    assert form.draft is not None
    return {
        "org_id": form.org_id,
        "id": form.id,
        "draft_json": form.draft.data,
        "draft_by": form.draft.by,
        "draft_at": form.draft.at,
        "draft_problems": [problem.to_json() for problem in form.draft.problems],
    }


def _ended_row(end: EndedForm) -> RowValues:
    return to_row(
        end, only=("org_id", "id", "reason", "ended_at"), status="answered" if end.answered else "cancelled"
    )
