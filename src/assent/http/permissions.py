"""Who may see, start and operate, as the routes ask it; the rules are those of every door, `assent.runtime.rights`."""

from assent.http.desk import Desk
from assent.model.actor import Actor
from assent.runtime import rights
from assent.runtime.listing import Row
from assent.runtime.rights import Operation, may_emit, may_start

__all__ = ["hidden_types", "may_emit", "may_operate", "may_read", "may_start"]


def may_read(desk: Desk, entity_type: str | None) -> None:
    """Everybody of an org sees its entities, unless their contract lists who may `read`."""
    rights.may_read(desk.house.app.registry.contracts, entity_type, desk.caller.actor)


def hidden_types(desk: Desk) -> list[str]:
    """The entity types that the caller may not see."""
    return rights.hidden_types(desk.house.app.registry.contracts, desk.caller.actor)


def may_operate(actor: Actor, operation: Operation, instance: Row) -> None:
    """Whoever started a flow may call it off; the rest is for operators."""
    if operation == "cancel":
        rights.may_cancel(actor, instance)
    else:
        rights.may_operate(actor, operation)
