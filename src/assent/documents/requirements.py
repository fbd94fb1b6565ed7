"""Requirements: what is needed, as rows. Every move is written here, with its event, and wakes its instance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import zip_longest
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.model.actor import SYSTEM_ID, Reader, reader_columns
from assent.model.document import ON_REQUIREMENT, DocumentRequirement, RejectionCode, RequirementChange
from assent.model.ids import InstanceKey, new_id
from assent.model.moves import REQUIREMENT_MOVES
from assent.model.mutation import Event
from assent.outbox.events import emit_events
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row, RowValues, from_row

_SQL: Final = load_queries("assent.documents", "documents.sql")

Requirements = dict[tuple[str, str], DocumentRequirement]


def requirement_from(row: Row) -> DocumentRequirement:
    code = row.get("rejection_row")
    rejection = rejection_code_from(code) if code is not None else None
    return from_row(DocumentRequirement, row, rejection=rejection)


def rejection_code_from(row: Row) -> RejectionCode:
    return from_row(RejectionCode, row)


async def load_requirements(
    connection: Connection, instances: Sequence[InstanceKey]
) -> dict[InstanceKey, Requirements]:
    """Return the requirements of instances, in one statement. They are not locked: a write says what it has read."""
    found: dict[InstanceKey, Requirements] = {}
    if instances:
        columns = map(list, zip(*instances, strict=True))
        for row in await connection.fetch(_SQL.load_requirements_of_instances, *columns):
            requirement = requirement_from(row)
            found.setdefault((row["org_id"], row["instance_id"]), {})[requirement.place] = requirement
    return found


@dataclass(frozen=True, slots=True)
class ActorsChange:
    """A change of a requirement, who brought it about, and why."""

    change: RequirementChange
    actor_id: str = SYSTEM_ID
    notes: str | None = None
    trace_id: str | None = None


async def write_requirements(
    connection: Connection, changes: Sequence[ActorsChange], now: datetime, *, wakes: bool = True
) -> None:
    """Write requirements value by value, so that the database sees every move; one statement for each round of moves.

    An instance that moves its own requirements is not woken by them. Raise a serialization error, after which the
    transaction is done again, if another one was faster.
    """
    if not changes:
        return
    by_requirement: dict[tuple[str, UUID], list[DocumentRequirement]] = {}
    for one in changes:
        after = one.change.after
        by_requirement.setdefault((after.org_id, after.id), []).append(after)
    reviewed = [one.change.after for one in changes if one.change.after.status == "in_qa"]
    if reviewed:
        columns = [one.org_id for one in reviewed], [one.version_id for one in reviewed]
        await connection.execute(_SQL.begin_reviews_of_versions, *columns)
    for rank, values in enumerate(zip_longest(*by_requirement.values())):
        await _write_round(
            connection, [value for value in values if value is not None], now, is_first=rank == 0
        )
    events = [event for one in changes if (event := _event(one, now)) is not None]
    await write_events(connection, events)
    if wakes:
        await emit_events(connection, _news(changes, now), now)


async def _write_round(
    connection: Connection, values: Sequence[DocumentRequirement], now: datetime, *, is_first: bool
) -> None:
    new = [value.to_row() for value in values if is_first and value.revision == 1]
    moved = sorted((value.to_row() for value in values if value.revision > 1), key=_place)
    if new:
        _require_all(await connection.execute(_SQL.insert_requirements_if_absent, new), "INSERT 0", len(new))
    if moved:
        done = await connection.execute(_SQL.update_requirements_if_unchanged, moved, now)
        _require_all(done, "UPDATE", len(moved))


def _place(row: RowValues) -> tuple[str, UUID]:
    return row["org_id"], row["id"]


def _require_all(done: str, verb: str, count: int) -> None:
    if done != f"{verb} {count}":
        raise asyncpg.SerializationError("a requirement was changed by another transaction")


def _event(one: ActorsChange, now: datetime) -> RowValues | None:
    """Return what happened; None if only what it waits for has changed."""
    before, after = one.change
    came = before is not None and before.version_id != after.version_id and after.version_id is not None
    if before is not None and before.status == after.status and not came:
        return None
    type_: str = "received" if came else after.status
    if after.status == "missing":
        type_ = "required" if before is None else "reset"
    return event_row(
        after.org_id,
        type_,
        one.actor_id,
        now,
        requirement_id=after.id,
        document_id=after.document_id,
        version_id=after.version_id,
        old_status=before.status if before is not None else None,
        new_status=after.status,
        rejection_code=after.rejection_code if after.status == "rejected" else None,
        notes=one.notes,
    )


def event_row(org_id: str, type_: str, actor_id: str, now: datetime, **about: Any) -> RowValues:
    """Return an event about a requirement, a document or a version."""
    return {"org_id": org_id, "id": new_id(now), "type": type_, "actor_id": actor_id, "at": now, **about}


async def write_events(connection: Connection, events: Sequence[RowValues]) -> None:
    if events:
        await connection.execute(_SQL.insert_document_events, list(events))


def _news(changes: Sequence[ActorsChange], now: datetime) -> list[Event]:
    """Return one event for each instance."""
    by_instance: dict[InstanceKey, list[ActorsChange]] = {}
    for one in changes:
        after = one.change.after
        if after.instance_id is not None:
            by_instance.setdefault((after.org_id, after.instance_id), []).append(one)
    news = []
    for (org_id, instance_id), found in by_instance.items():
        event_id = new_id(now)
        names = sorted({str(one.change.after.id) for one in found})
        payload = {"cause": str(event_id), "requirements": names}
        trace_id = next((one.trace_id for one in found if one.trace_id is not None), None)
        news.append(
            Event(org_id, event_id, ON_REQUIREMENT, payload, instance_id=instance_id, trace_id=trace_id)
        )
    return news


async def lock_requirements(
    connection: Connection, org_id: str, ids: Sequence[UUID]
) -> list[DocumentRequirement]:
    return [
        requirement_from(row) for row in await connection.fetch(_SQL.lock_requirements, org_id, list(ids))
    ]


async def lock_requirements_of_version(
    connection: Connection, org_id: str, version_id: UUID
) -> list[DocumentRequirement]:
    rows = await connection.fetch(_SQL.lock_requirements_of_versions, org_id, [version_id])
    return [requirement_from(row) for row in rows]


async def expire_requirements(connection: Connection, limit: int, now: datetime) -> int:
    """Let verified documents lapse whose last valid day is over; return how many."""
    rows = await connection.fetch(_SQL.lock_lapsed_requirements, limit, now.date())
    found = [requirement_from(row) for row in rows]
    changes = [ActorsChange(RequirementChange(row, row.expire())) for row in found]
    await write_requirements(connection, changes, now)
    return len(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementFilter:
    """Which requirements are listed; of everything that is not said, all."""

    instance_id: UUID | None = None
    subject: str | None = None
    doc_type: str | None = None
    status: str | None = None
    partition_id: str | None = None
    code: str | None = None
    """Of the last rejection."""
    due_before: date | None = None
    """Only those that are open, and due before this day."""

    reader: Reader | None = None
    """Who reads the list, and sees what they may; without one, everything."""

    @property
    def columns(self) -> tuple[Any, ...]:
        what = (self.instance_id, self.subject, self.doc_type, self.status, self.partition_id)
        return (*what, self.code, self.due_before)


async def is_required(connection: Connection, wanted: DocumentRequirement) -> bool:
    """Return whether there is a requirement for the same document already."""
    about = (wanted.org_id, wanted.instance_id, wanted.partition_id, wanted.subject, wanted.doc_type)
    return bool(await connection.fetchval(_SQL.is_required, *about))


async def page_of_requirements(
    connection: Connection, org_id: str, wanted: RequirementFilter, after: UUID | None, limit: int
) -> list[DocumentRequirement]:
    """Return requirements, newest first."""
    given = (*wanted.columns, after, limit, *reader_columns(wanted.reader))
    rows = await connection.fetch(_SQL.page_of_requirements, org_id, *given)
    return [requirement_from(row) for row in rows]


COUNTED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RequirementCounts:
    """How many requirements a list has, by status."""

    statuses: Mapping[str, int]
    """Exact up to 10,000 of each."""
    more: bool
    """Whether one of them has more."""


async def count_requirements(
    connection: Connection, org_id: str, wanted: RequirementFilter
) -> RequirementCounts:
    """Return how many requirements of a list have each status."""
    statuses = list(REQUIREMENT_MOVES)
    given = (*wanted.columns, statuses, COUNTED_MAX + 1, *reader_columns(wanted.reader))
    rows = await connection.fetch(_SQL.count_requirements, org_id, *given)
    found = {row["status"]: row["count"] for row in rows}
    counts = {status: min(found[status], COUNTED_MAX) for status in statuses}
    return RequirementCounts(counts, max(found.values()) > COUNTED_MAX)


async def lock_requirements_of_subject(
    connection: Connection, wanted: RequirementFilter, org_id: str, doc_types: Sequence[str]
) -> list[DocumentRequirement]:
    """Lock what is required of a subject, of these types, by an instance or for the subject alone."""
    given = (org_id, wanted.instance_id, wanted.subject, list(doc_types), wanted.partition_id)
    return [
        requirement_from(row) for row in await connection.fetch(_SQL.lock_requirements_of_subject, *given)
    ]


async def find_requirement(
    connection: Connection, org_id: str, requirement_id: UUID
) -> DocumentRequirement | None:
    row = await connection.fetchrow(_SQL.find_requirement, org_id, requirement_id)
    return requirement_from(row) if row is not None else None


async def find_rejection_code(connection: Connection, org_id: str, code: str) -> RejectionCode | None:
    row = await connection.fetchrow(_SQL.find_rejection_code, org_id, code)
    return rejection_code_from(row) if row is not None else None


async def list_rejection_codes(connection: Connection, org_id: str) -> list[RejectionCode]:
    """Return the codes that an org can use, by name."""
    return [rejection_code_from(row) for row in await connection.fetch(_SQL.list_rejection_codes, org_id)]


async def keep_rejection_code(connection: Connection, org_id: str, code: RejectionCode) -> None:
    words = (code.client_message, code.ops_message, code.next_action)
    translations: Mapping[str, Any] = code.translations
    await connection.execute(
        _SQL.keep_rejection_code, org_id, code.code, code.category, *words, code.retryable, dict(translations)
    )
