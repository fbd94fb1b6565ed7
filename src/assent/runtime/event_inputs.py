"""Events of the outbox as inputs of the engine, loaded in order for instances whose locks are held."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from assent.definitions import DefinitionRef
from assent.engine.inputs import (
    Drifted,
    EventArrived,
    Expired,
    Input,
    Poke,
    RequestDecided,
    RequirementChanged,
    Start,
    TimerDue,
    Unreadable,
)
from assent.model.actor import SYSTEM, Actor, Authority
from assent.model.document import ON_REQUIREMENT
from assent.model.ids import InstanceKey
from assent.model.mutation import (
    ON_AMENDMENT,
    ON_CREATE,
    ON_EVENT,
    ON_MUTATION,
    ON_SUPERSEDED,
    PARTITION,
    PEOPLE,
)
from assent.model.outside_request import ON_RESULT
from assent.runtime.batch import BatchItem, NewInstance
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

ON_START: Final = "on_start"
"""Start a flow, in the background."""
ON_TIMER: Final = "on_timer"
ON_EXPIRED: Final = "on_expired"
ON_POKE: Final = "on_poke"
"""An operator put the instance to work again."""


def input_of_event(event: Row) -> tuple[Input, NewInstance | None]:
    """Return what an event means to its instance, and how the instance begins if the event is the one that begins it.

    An event of an unknown type is an input of no kind.
    """
    make = _INPUTS.get(event["event_type"])
    if make is None:
        return Input(event["id"]), None
    try:
        return make(event, event["payload_json"]), _birth(event, event["payload_json"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Unreadable(event["id"], problem=f"payload of {event['event_type']}: {error!r}"), None


def _birth(event: Row, payload: Mapping[str, Any]) -> NewInstance | None:
    if event["event_type"] == ON_CREATE:
        entity_type = payload["entity_type"]
        wanted = DefinitionRef(event["org_id"], "effective", entity_type)
        requester = _authority(payload).requester.id
        return NewInstance(wanted, requester, entity_type, UUID(payload["entity_id"]))
    if event["event_type"] == ON_START:
        wanted = DefinitionRef(event["org_id"], "flow", payload["flow"])
        requester = _authority(payload).requester.id
        return NewInstance(wanted, requester, partition_id=payload.get(PARTITION))
    return None


def _actor(payload: Mapping[str, Any]) -> Actor:
    """Return who caused it, without any rights: those that the actor has now are read for the batch."""
    authority = _authority_if_known(payload)
    principals = authority.principals if authority is not None else ()
    return next((one.without_rights() for one in principals if one.id == payload.get("actor")), SYSTEM)


def _authority(payload: Mapping[str, Any]) -> Authority:
    """Return on whose behalf an instance begins; an event that does not say it is not readable."""
    return Authority.from_json(payload["authority"])


def _authority_if_known(payload: Mapping[str, Any]) -> Authority | None:
    return _authority(payload) if "authority" in payload else None


def _step(payload: Mapping[str, Any]) -> UUID:
    return UUID(payload["step"])


_INPUTS: Final[Mapping[str, Callable[[Row, Mapping[str, Any]], Input]]] = {
    ON_CREATE: lambda event, given: Start(
        event["id"], _actor(given), granted=True, authority=_authority(given)
    ),
    ON_START: lambda event, given: Start(
        event["id"],
        _actor(given),
        given.get("data", {}),
        granted=given.get("granted", True),
        authority=_authority(given),
    ),
    ON_MUTATION: lambda event, given: Drifted(
        event["id"], _actor(given), event["entity_version"], authority=_authority_if_known(given)
    ),
    ON_AMENDMENT: lambda event, given: Drifted(
        event["id"],
        _actor(given),
        event["entity_version"],
        given.get("changes", {}),
        authority=_authority_if_known(given),
    ),
    ON_SUPERSEDED: lambda event, given: Drifted(
        event["id"],
        _actor(given),
        amended_by=UUID(given["amended_by"]),
        authority=_authority_if_known(given),
    ),
    ON_TIMER: lambda event, given: TimerDue(event["id"], step_id=_step(given)),
    ON_EXPIRED: lambda event, given: Expired(event["id"]),
    ON_EVENT: lambda event, given: EventArrived(
        event["id"],
        SYSTEM,
        _step(given),
        given.get("data"),
        given.get("outcome", "completed"),
        int(given.get("hops", 0)),
        tuple(given.get(PEOPLE, ())),
    ),
    ON_RESULT: lambda event, given: RequestDecided(
        event["id"],
        SYSTEM,
        _step(given),
        UUID(given["request"]),
        given["status"],
        given["result"],
        given.get("error"),
        tuple(given.get(PEOPLE, ())),
    ),
    ON_REQUIREMENT: lambda event, given: RequirementChanged(event["id"]),
    ON_POKE: lambda event, given: Poke(event["id"], _actor(given)),
}


async def load_events(
    connection: Connection,
    places: Sequence[InstanceKey],
    events_max: int | None = None,
    *,
    due_only: bool = True,
) -> tuple[list[BatchItem], int]:
    """Return the works of these instances, and how many events were put off.

    One event that must wait makes those behind it wait too.
    """
    return await works_of(connection, await _open_events(connection, places), events_max, due_only=due_only)


async def works_of(
    connection: Connection,
    by_place: Mapping[InstanceKey, list[Any]],
    events_max: int | None = None,
    *,
    due_only: bool = True,
) -> tuple[list[BatchItem], int]:
    """Return the works of instances whose open events were loaded, and how many events were put off."""
    ready = {place: rows for place, rows in by_place.items() if rows[0]["is_due"] or not due_only}
    works = [add_events(BatchItem(*place), rows[:events_max]) for place, rows in ready.items()]
    waiting = [rows for place, rows in by_place.items() if place not in ready]
    return works, await _put_off(connection, waiting)


def add_events(work: BatchItem, rows: Sequence[Any]) -> BatchItem:
    for row in rows:
        given, birth = input_of_event(row)
        work.inputs.append(given)
        work.events[given.id] = row
        work.birth = work.birth or birth
        work.trace = work.trace or row["trace_id"]
    return work


async def _open_events(connection: Connection, places: Sequence[InstanceKey]) -> dict[InstanceKey, list[Any]]:
    orgs, ids = [org for org, _ in places], [instance_id for _, instance_id in places]
    return _by_place(await connection.fetch(_SQL.load_open_events, orgs, ids))


async def load_named_events(
    connection: Connection, places: Sequence[InstanceKey]
) -> dict[InstanceKey, list[Any]]:
    """Return the open events of those instances whose locks were taken when the transaction began."""
    orgs, ids = [org for org, _ in places], [instance_id for _, instance_id in places]
    return _by_place(await connection.fetch(_SQL.load_named_events, orgs, ids))


def _by_place(rows: Sequence[Any]) -> dict[InstanceKey, list[Any]]:
    found: dict[InstanceKey, list[Any]] = {}
    for row in rows:
        found.setdefault((row["org_id"], row["instance_id"]), []).append(row)
    return found


async def _put_off(connection: Connection, waiting: Sequence[list[Any]]) -> int:
    """Without it they would be claimed again and again, in the place of others."""
    behind = [
        (row["org_id"], row["created_at"], row["id"], rows[0]["created_at"], rows[0]["id"])
        for rows in waiting
        for row in rows[1:]
        if row["is_due"]
    ]
    if behind:
        await connection.execute(_SQL.put_off_events, *zip(*behind, strict=True))
    return len(behind)
