"""Instances and steps as lists show them, and an instance as a command returns it. Reads, and never writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from assent.approvals.requests import ApprovalDetails
from assent.engine.instance import Instance, Token
from assent.engine.plan import Plan
from assent.model.actor import Reader, reader_columns
from assent.model.approval import SeatedRequest
from assent.model.ids import Cursor
from assent.model.mutation import Entity
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


@dataclass(frozen=True, slots=True)
class InstanceFilter:
    """Which instances are wanted; what is not said is no matter."""

    statuses: Sequence[str] | None = None
    workflow: str | None = None
    subject: str | None = None
    entity_id: UUID | None = None
    partition_id: str | None = None
    reader: Reader | None = None
    """Who reads the list, and sees what they may; without one, everything."""
    entity_type: str | None = None


COUNTED_MAX: Final = 10_000
"""How many instances a count goes through."""


@dataclass(frozen=True, slots=True)
class InstanceCount:
    """How many instances fit a filter."""

    count: int
    more: bool
    """Whether there are more than the count says."""


@dataclass(frozen=True, slots=True)
class InstanceItem:
    """An instance in a list."""

    org_id: str
    id: UUID
    workflow_id: str
    definition_version: int
    status: str
    version: int
    subject_id: str
    """The user who started it."""
    partition_id: str | None
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int
    current_nodes: Sequence[str]
    incident: Mapping[str, Any] | None
    started_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    expires_at: datetime | None
    stands_at: Sequence[str] = ()
    """The names of its current nodes; ids, where its definition cannot be loaded."""


@dataclass(frozen=True, slots=True)
class StepItem:
    """A step that an instance took, or that it waits at."""

    id: UUID
    at: datetime
    step: str
    """The name of its node, or the id where the name is not known."""
    node_id: str
    kind: str
    status: str
    outcome: str | None
    actor: str | None
    """The user who caused it."""
    on_behalf_of: Sequence[str] | None
    """The users that the actor acted for; None for the actor alone."""
    finished_by: str | None
    finished_at: datetime | None
    reason: str | None
    error: str | None

    @classmethod
    def of(cls, row: Row, name: str | None = None) -> Self:
        """Return the step of a row; `name` is the name of its node."""
        output = row["output_json"] or {}
        decisions = output.get("decisions") or [{}]
        return cls(
            id=row["id"],
            at=row["created_at"],
            step=name or row["node_id"],
            node_id=row["node_id"],
            kind=row["node_type"],
            status=row["status"],
            outcome=output.get("outcome"),
            actor=row["actor_user_id"],
            on_behalf_of=output.get("on_behalf_of"),
            finished_by=output.get("by") or decisions[-1].get("by"),
            finished_at=row["completed_at"],
            reason=output.get("reason") or None,
            error=row["error"],
        )


async def list_instances(
    connection: Connection, org_id: str, wanted: InstanceFilter, after: UUID | None, limit: int
) -> list[Row]:
    by = (wanted.statuses, wanted.workflow, wanted.subject, wanted.entity_id, wanted.partition_id)
    seen = reader_columns(wanted.reader)
    return _plain(
        await connection.fetch(_SQL.list_instances, org_id, *by, after, limit, wanted.entity_type, *seen)
    )


async def count_instances(connection: Connection, org_id: str, wanted: InstanceFilter) -> InstanceCount:
    by = (wanted.statuses, wanted.workflow, wanted.subject, wanted.entity_id, wanted.partition_id)
    seen = reader_columns(wanted.reader)
    found: int = await connection.fetchval(
        _SQL.count_instances, org_id, *by, COUNTED_MAX + 1, wanted.entity_type, *seen
    )
    return InstanceCount(min(found, COUNTED_MAX), found > COUNTED_MAX)


async def find_instance(connection: Connection, org_id: str, instance_id: UUID) -> Row | None:
    row = await connection.fetchrow(_SQL.find_instance, org_id, instance_id)
    return dict(row) if row else None


async def list_steps(
    connection: Connection, org_id: str, instance_id: UUID, after: Cursor | None, limit: int
) -> list[Row]:
    at, step_id = after or (None, None)
    return _plain(await connection.fetch(_SQL.list_steps, org_id, instance_id, at, step_id, limit))


def _plain(rows: Sequence[Any]) -> list[Row]:
    return [dict(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step that waits for a person, an event or a time."""

    node_id: str
    name: str
    kind: str
    token_id: str
    step_id: UUID | None
    answers: tuple[str, ...]
    request_id: UUID | None = None
    """What is asked of people here; a form has the id of its step."""
    asked: tuple[str, ...] = ()
    """Who is asked now."""
    due_at: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class InstanceView:
    """An instance after a command, as the command wrote it (D9)."""

    org_id: str
    id: UUID
    workflow_id: str
    status: str
    entity_id: UUID | None
    entity_version: int
    context: Mapping[str, Any]
    version: int
    waiting: tuple[Waiting, ...]
    incident: Mapping[str, Any] | None
    expires_at: datetime | None
    subject_id: str = ""
    """Who started it."""
    entity_type: str | None = None
    entity: Entity | None = None
    """The instance's entity as the command left it, if the command loaded it."""
    request: ApprovalDetails | None = None
    """The approval request that the command was to, as the command left it, if it loaded all of it."""


def view_of(
    plan: Plan,
    instance: Instance,
    asked: Mapping[UUID, SeatedRequest] | None = None,
    entity: Entity | None = None,
) -> InstanceView:
    """Return the view of an instance; `asked` has the request of each step, `entity` the loaded entity."""
    resting = [token for token in instance.tokens.values() if token.state in ("resting", "failed")]
    return InstanceView(
        org_id=instance.org_id,
        id=instance.id,
        workflow_id=plan.workflow.key,
        status=instance.status,
        entity_id=instance.entity_id,
        entity_version=instance.entity_version,
        context=dict(instance.context),
        version=instance.version,
        waiting=tuple(
            _waiting(plan, token, asked or {}) for token in sorted(resting, key=lambda token: token.id)
        ),
        incident=instance.incident,
        expires_at=instance.expires_at,
        subject_id=instance.subject_id,
        entity_type=instance.entity_type,
        entity=entity,
    )


def _waiting(plan: Plan, token: Token, asked: Mapping[UUID, SeatedRequest]) -> Waiting:
    node = plan.nodes[token.node]
    request = asked.get(token.step_id) if token.step_id else None
    seats = request.seats if request is not None else ()
    return Waiting(
        token.node,
        node.node.name,
        node.kind.value,
        token.id,
        token.step_id,
        tuple(sorted(node.answers)),
        request.id if request else None,
        tuple(sorted({seat.user_id for seat in seats if seat.status == "open"})),
        request.due_at if request else None,
        token.step_at,
    )
