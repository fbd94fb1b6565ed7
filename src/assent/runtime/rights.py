"""What the kernel and the engine leave to the doors: who may see, who may start a flow, who may operate an instance."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from assent.model.actor import Actor
from assent.model.contract import Contract
from assent.model.mutation import Refused, Rejection
from assent.model.policy import check_policy
from assent.model.workflow import Workflow

EDIT: Final = "definitions:edit"
"""The capability to write drafts of definitions."""
PUBLISH: Final = "definitions:publish"
"""The capability to publish definitions, take them out of use and bring them back, besides what steps run as (D29)."""

PUSH_RESULTS: Final = "results:push"
"""The capability to hand in what an outside party sends back."""

Operation = Literal["cancel", "pause", "resume", "retry", "repair"]
Contracts = Mapping[str, Contract]


def may_read(contracts: Contracts, entity_type: str | None, actor: Actor) -> None:
    """Everybody of an org sees its entities, unless their contract lists who may `read`."""
    contract = contracts.get(entity_type or "")
    if contract is not None and (denied := _unreadable(contract, actor)):
        raise Refused(denied)


def hidden_types(contracts: Contracts, actor: Actor) -> list[str]:
    """The entity types that somebody may not see."""
    return [contract.name for contract in contracts.values() if _unreadable(contract, actor)]


def _unreadable(contract: Contract, actor: Actor) -> Rejection | None:
    return check_policy(contract, "read", actor) if "read" in contract.permissions else None


def may_start(workflow: Workflow, actor: Actor) -> None:
    if missing := [name for name in workflow.capabilities if not actor.can(name)]:
        message = f"{actor.id} may not start {workflow.key}: it takes {', '.join(missing)}"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",)))


def may_cancel(actor: Actor, instance: Mapping[str, Any]) -> None:
    """Whoever started a flow may call it off; else it takes an operator."""
    if instance["entity_type"] is not None or instance["subject_id"] != actor.id:
        may_operate(actor, "cancel")


def may_operate(actor: Actor, operation: Operation) -> None:
    if not actor.can(f"workflows:{operation}"):
        message = f"{actor.id} may not {operation} instances: it takes workflows:{operation}"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",)))


def may_emit(actor: Actor) -> None:
    if not actor.can("events:emit"):
        message = f"{actor.id} may not emit events: it takes events:emit"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",)))


def require_capability(actor: Actor, capability: str) -> None:
    """For what has no rule of its own but the name of a capability."""
    if not actor.can(capability):
        raise Refused(Rejection("POLICY_DENIED", f"{actor.id} may not: it takes {capability}", ("actor",)))
