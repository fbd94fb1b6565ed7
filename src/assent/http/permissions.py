"""Who may see and emit, as the routes ask it; the rules are those of every door, `assent.runtime.rights`."""

from assent.http.desk import RequestContext
from assent.model.reader import Reader
from assent.runtime import rights
from assent.runtime.readers import reader_of
from assent.runtime.rights import may_emit
from assent.store.database import Connection

__all__ = ["hidden_types", "may_emit", "may_read", "reader_for"]


def may_read(desk: RequestContext, entity_type: str | None) -> None:
    """Everybody of an org sees its entities, unless their contract lists who may `read`."""
    rights.may_read(desk.house.app.registry.contracts, entity_type, desk.caller.actor)


def hidden_types(desk: RequestContext) -> list[str]:
    """The entity types that the caller may not see."""
    return rights.hidden_types(desk.house.app.registry.contracts, desk.caller.actor)


async def reader_for(desk: RequestContext, connection: Connection) -> Reader:
    """What the caller may see in lists."""
    return await reader_of(desk.house.runtime.core, connection, desk.org_id, desk.caller.actor)
