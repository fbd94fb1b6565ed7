"""What the kernel and the engine leave to the doors: who may see, emit, publish, and operate more than an instance."""

from collections.abc import Mapping
from typing import Final

from assent.engine.rights import Operation, inoperable, unstartable
from assent.model.actor import Actor
from assent.model.contract import Contract
from assent.model.mutation import Refused, Rejection
from assent.model.policy import check_policy
from assent.model.workflow import Workflow

EDIT: Final = "definitions:edit"
"""The capability to write drafts of definitions."""
PUBLISH: Final = "definitions:publish"
"""The capability to publish definitions, take them out of use and bring them back, besides what steps run as (D29)."""

READ_DEFINITIONS: Final = "definitions:read"
"""The capability to read what authors wrote and what it compiled to; who may edit or publish it may read it too."""

READ_FLOWS: Final = "workflows:read"
"""The capability to read every instance of a flow."""

READ_DOCUMENTS: Final = "documents:read"
"""The capability to read documents, their versions, and what is required."""

PUSH_RESULTS: Final = "results:push"
"""The capability to hand in what an outside party sends back."""

__all__ = [
    "EDIT",
    "PUBLISH",
    "PUSH_RESULTS",
    "READ_DEFINITIONS",
    "READ_DOCUMENTS",
    "READ_FLOWS",
    "Contracts",
    "Operation",
    "hidden_types",
    "may_emit",
    "may_operate",
    "may_read",
    "may_read_definitions",
    "may_read_flow",
    "may_start",
    "require_capability",
]

Contracts = Mapping[str, Contract]


def may_read(contracts: Contracts, entity_type: str | None, actor: Actor) -> None:
    """Everybody of an org sees its entities, unless their contract lists who may `read`."""
    contract = contracts.get(entity_type or "")
    if contract is not None and (denied := _unreadable(contract, actor)):
        raise Refused(denied)


def hidden_types(contracts: Contracts, actor: Actor) -> list[str]:
    """Return the entity types that the actor may not see."""
    return [contract.name for contract in contracts.values() if _unreadable(contract, actor)]


def may_read_flow(key: str, actor: Actor) -> bool:
    """Return whether the actor may read every instance of a flow, by a capability for all flows or for this one."""
    return actor.kind == "system" or actor.can(READ_FLOWS) or actor.can(f"{key}:read")


def may_read_definitions(actor: Actor) -> None:
    """Refuse members who do not work on definitions: they may read names and versions, not what definitions say."""
    if not any(actor.can(capability) for capability in (READ_DEFINITIONS, EDIT, PUBLISH)):
        message = f"{actor.id} may not read definitions: it takes {READ_DEFINITIONS}"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",)))


def _unreadable(contract: Contract, actor: Actor) -> Rejection | None:
    return check_policy(contract, "read", actor) if "read" in contract.permissions else None


def may_start(workflow: Workflow, actor: Actor) -> None:
    """Raise `Refused` unless the actor may start in the background; other starts are checked by the instance."""
    if refused := unstartable(workflow, actor):
        raise Refused(refused)


def may_operate(actor: Actor, operation: Operation) -> None:
    """Raise `Refused` unless the actor may operate on several instances, or on none; one instance checks it itself."""
    if refused := inoperable(operation, actor):
        raise Refused(refused)


def may_emit(actor: Actor) -> None:
    if not actor.can("events:emit"):
        message = f"{actor.id} may not emit events: it takes events:emit"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",)))


def require_capability(actor: Actor, capability: str) -> None:
    """For what has no rule of its own but the name of a capability."""
    if not actor.can(capability):
        raise Refused(Rejection("POLICY_DENIED", f"{actor.id} may not: it takes {capability}", ("actor",)))
