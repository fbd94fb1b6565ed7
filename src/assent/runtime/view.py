"""What whoever asked gets to see of an instance."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.engine.instance import Instance
from assent.engine.plan import Plan


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step that waits for somebody or something."""

    node_id: str
    name: str
    kind: str
    token_id: str
    step_id: UUID | None
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstanceView:
    """An instance after a command: whoever writes reads what was written (D9)."""

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


def view_of(plan: Plan, instance: Instance) -> InstanceView:
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
            Waiting(
                token.node,
                plan.nodes[token.node].node.name,
                plan.nodes[token.node].kind.value,
                token.id,
                token.step_id,
                tuple(sorted(plan.nodes[token.node].answers)),
            )
            for token in sorted(resting, key=lambda token: token.id)
        ),
        incident=instance.incident,
        expires_at=instance.expires_at,
    )
