"""What a change tells the entity's workflow."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from assent.kernel.changes import EntityChange
from assent.model.contract import EditWindow
from assent.model.ids import new_id
from assent.model.mutation import ON_AMENDMENT, ON_CREATE, ON_MUTATION, ON_SUPERSEDED, Entity, Event


def events_of(change: EntityChange, now: datetime) -> Iterator[Event]:
    """An instance hears of what others do to its entity; of its own writes it knows (D19)."""
    if change.draft.is_own_write:
        return
    if change.amended is not None and change.amended.instance_id is not None:
        yield _event(change, ON_SUPERSEDED, change.amended, now)
    if change.after.instance_id is None:
        return
    if change.before is None:
        yield _event(change, ON_CREATE, change.after, now)
    elif change.before.edit_window is EditWindow.AMEND_ONLY and change.is_edit:
        yield _event(change, ON_AMENDMENT, change.after, now)
    else:
        yield _event(change, ON_MUTATION, change.after, now)


def _event(change: EntityChange, event_type: str, about: Entity, now: datetime) -> Event:
    command = change.draft.command
    payload: dict[str, Any] = {
        "cause": str(change.audit_id),
        "action": command.action,
        "actor": (command.acted_by or command.actor).id,
        "authority": command.behalf.to_json(),
        "entity_type": about.type,
        "entity_id": str(about.id),
    }
    if event_type == ON_SUPERSEDED:
        payload |= {"reason": "amended", "amended_by": str(change.after.id)}
    if change.before is not None:
        payload |= {"from_version": change.before.version}
    if event_type == ON_AMENDMENT:
        payload |= {"changes": change.changed_fields}
    return Event(
        org_id=about.org_id,
        id=new_id(now),
        event_type=event_type,
        payload=payload,
        instance_id=about.instance_id,
        entity_version=about.version,
        trace_id=command.trace_id,
    )
