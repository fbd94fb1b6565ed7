"""An instance as a command returns it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.engine.instance import Instance, Token
from assent.engine.plan import Plan
from assent.model.approval import SeatedRequest
from assent.model.mutation import Entity


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
