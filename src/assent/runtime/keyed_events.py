"""Events under a key: delivered to every step that waits for it, else kept for the first that will (D32)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from assent.engine.inputs import EventArrived
from assent.engine.instance import Step
from assent.model.ids import EventKey, new_id
from assent.model.mutation import ON_EVENT, PARTITION, PEOPLE, Event
from assent.outbox.events import emit_events
from assent.runtime.batch import Execution
from assent.store.claim_floor import ClaimFloor
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.triggers.triggers import Triggers, find_unknown_keys, fire_triggers

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


NEWER_CODE_WAIT_S: Final = 2.0
"""How long an event waits for a worker of newer code, before any worker takes it again."""

TOO_COSTLY: Final = "an expression of a trigger looked at too many items of its data"

FIRST: Final = ""
"""Before every org."""

Claim = Callable[[str, datetime], Awaitable[Sequence[Any]]]
"""Claims what is due in orgs behind one, from a time on, in the order of their ids; each org it saw has a row."""


@dataclass
class OrgRotation:
    """The org at which a worker's last claim ended: a claim looks at some orgs, the next one at those behind.

    Not shared between processes: each goes round by itself.
    """

    after: str = FIRST
    _floor: ClaimFloor = field(default_factory=ClaimFloor)

    async def claim(self, claim: Claim, orgs_max: int, column: str) -> Sequence[Any]:
        """Return what the next orgs gave, going round until one gave something or all were looked at.

        `column` is null in the row of an org that gave nothing.
        """
        return await self._floor.look(lambda floor: self._go_round(claim, orgs_max, column, floor))

    async def _go_round(
        self, claim: Claim, orgs_max: int, column: str, floor: datetime
    ) -> tuple[list[Any], datetime | None]:
        went_round = self.after == FIRST
        while True:
            began_at = self.after
            rows = await claim(began_at, floor)
            orgs = {row["org_id"] for row in rows}
            self.after = rows[-1]["org_id"] if len(orgs) >= orgs_max else FIRST
            found = [row for row in rows if row[column] is not None]
            if found or (self.after == FIRST and went_round):
                are_all = began_at == self.after == FIRST
                times = [row["created_at"] for row in found if row["created_at"] is not None]
                return found, min(times, default=None) if are_all else None
            went_round = went_round or self.after == FIRST


def arrival(  # noqa: PLR0913, PLR0917
    org_id: str,
    key: str,
    now: datetime,
    cause: str | None = None,
    partition_id: str | None = None,
    people: Sequence[str] = (),
    **news: Any,
) -> Event:
    """Return the event that something has come under a key; one cause is one event (WF-11).

    With a partition it is for the instances of that partition only. It brings the work of `people`.
    """
    event_id = new_id(now)
    about: dict[str, Any] = {"key": key} | ({PARTITION: partition_id} if partition_id is not None else {})
    if people:
        about[PEOPLE] = list(people)
    return Event(
        org_id,
        event_id,
        ON_EVENT,
        {"cause": str(event_id) if cause is None else cause, **about, **news},
        None,
    )


async def route_arrivals(
    connection: Connection, turns: OrgRotation, triggers: Triggers, limit: int, now: datetime
) -> int:
    """Deliver a batch of arrivals to the steps that wait for them, and start the tasks of triggers.

    Return how many there were.
    """

    async def claim(after: str, floor: datetime) -> list[Any]:
        return await connection.fetch(_SQL.claim_arrivals, limit, after, floor)

    claimed = await turns.claim(claim, limit, "id")
    if not claimed:
        return 0
    arrivals = [row for row in claimed if isinstance(row["payload_json"].get("key"), str)]
    await _refuse(connection, [row for row in claimed if row not in arrivals], "it came without a key")
    arrivals = await _leave_to_newer_code(connection, triggers, arrivals)
    fired = await fire_triggers(connection, triggers, arrivals, now)
    await _refuse(connection, [row for row in arrivals if row["id"] in fired.costly], TOO_COSTLY)
    arrivals = [row for row in arrivals if row["id"] not in fired.costly]
    waits = await _take_waits(connection, arrivals)
    # Each wait is for one event: the first of a key takes all that it may reach, the next ones are kept.
    found = [(row, _reached(row, waits)) for row in arrivals]
    await emit_events(
        connection, [deliver_arrival(row, wait, now) for row, some in found for wait in some], now
    )
    if kept := [_kept(row) for row, some in found if not some and row["id"] not in fired.taken]:
        await connection.execute(_SQL.keep_events, kept)
    await connection.execute(_SQL.complete_events, *_keys(arrivals), [None] * len(arrivals), now)
    return len(claimed)


async def _leave_to_newer_code(connection: Connection, triggers: Triggers, arrivals: list[Any]) -> list[Any]:
    """Return the arrivals without those that a trigger of newer code waits for: its workers take them later."""
    unknown = await find_unknown_keys(connection, triggers, {_key(row)[1] for row in arrivals})
    left = [row for row in arrivals if _key(row)[1] in unknown]
    if left:
        await connection.execute(_SQL.postpone_arrivals, *_keys(left), timedelta(seconds=NEWER_CODE_WAIT_S))
    return [row for row in arrivals if row not in left]


async def _take_waits(connection: Connection, arrivals: Sequence[Any]) -> dict[EventKey, list[Any]]:
    """Return the steps that these may reach; from now on they wait for what is on its way to them."""
    found: dict[EventKey, list[Any]] = {}
    if arrivals:
        orgs, texts = zip(*(_key(row) for row in arrivals), strict=True)
        partitions = [partition_of(row["payload_json"]) for row in arrivals]
        await put(connection, _SQL.lock_event_keys, orgs, texts)
        for row in await connection.fetch(_SQL.take_waits, orgs, texts, partitions):
            found.setdefault((row["org_id"], row["event_key"]), []).append(row)
    return found


def _reached(arrival: Any, waits: dict[EventKey, list[Any]]) -> list[Any]:
    """Return the waits that an arrival may reach, and take them out of those that are left."""
    left, partition = waits.get(_key(arrival), []), partition_of(arrival["payload_json"])
    waits[_key(arrival)] = [wait for wait in left if partition not in (None, wait["partition_id"])]
    return [wait for wait in left if partition in (None, wait["partition_id"])]


def partition_of(payload: Mapping[str, Any]) -> str | None:
    """Return the one partition that an event is for; None where it is for all."""
    found = payload.get(PARTITION)
    return found if isinstance(found, str) else None


async def _refuse(connection: Connection, arrivals: Sequence[Any], why: str) -> None:
    """End arrivals as dead: without a key no step can wait for them."""
    if arrivals:
        await connection.execute(_SQL.give_up_arrivals, *_keys(arrivals), why)


def deliver_arrival(row: Any, wait: Any, now: datetime) -> Event:
    """Return the event for an instance, of an arrival that one of its steps waits for."""
    payload = row["payload_json"]
    news = {"cause": str(row["id"]), "step": str(wait["step_id"]), "key": payload["key"]}
    news |= {name: payload[name] for name in ("data", "outcome", "hops", PEOPLE) if name in payload}
    about = wait["instance_id"], wait["entity_version"], row["trace_id"]
    return Event(row["org_id"], new_id(now), ON_EVENT, news, *about)


def _kept(row: Any) -> dict[str, Any]:
    payload = row["payload_json"]
    return {
        "org_id": row["org_id"],
        "id": row["id"],
        "event_key": payload["key"],
        "payload": payload,
        "partition_id": partition_of(payload),
        "created_at": row["created_at"],
    }


def _key(row: Any) -> EventKey:
    return row["org_id"], row["payload_json"]["key"]


def _keys(arrivals: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    return (
        [row["org_id"] for row in arrivals],
        [row["created_at"] for row in arrivals],
        [row["id"] for row in arrivals],
    )


Wait = tuple[Execution, Step]


async def feed_kept_events(connection: Connection, jobs: Sequence[Execution], now: datetime) -> bool:
    """Look for a kept event for the next wait of every instance; return whether an instance had such a wait.

    One wait at a time: what the first one finds may end the others, and then their events stay kept.
    """
    waits = [(job, step) for job in jobs if (step := _next_wait(job)) is not None]
    if not waits:
        return False
    kept = await _take(connection, waits)
    later: list[Event] = []
    for place, (job, step) in enumerate(waits, 1):
        job.asked.add(step.id)
        event = kept.get(place)
        if event is not None and job.run.instance.status == "running":
            job.run.inputs.append(_arrived(event, step))
        elif event is not None:
            later.append(_for_later(event, step, now))
    await emit_events(connection, later, now)
    return True


def _next_wait(job: Execution) -> Step | None:
    return next((step for step in job.run.steps if _waits(step) and step.id not in job.asked), None)


def _waits(step: Step) -> bool:
    return step.event_key is not None and step.is_new and step.status == "pending"


async def _take(connection: Connection, waits: Sequence[Wait]) -> dict[int, Any]:
    """Return the kept event of each wait that there is one for, by the position of the wait, from 1."""
    orgs, keys = [step.org_id for _, step in waits], [step.event_key for _, step in waits]
    partitions = [job.run.instance.partition_id for job, _ in waits]
    await put(connection, _SQL.lock_event_keys, orgs, keys)
    rows = await connection.fetch(_SQL.take_kept_events, orgs, keys, partitions)
    return {
        row["place"]: {name: row[name] for name in ("org_id", "id", "payload", "created_at")} for row in rows
    }


def _arrived(event: Any, step: Step) -> EventArrived:
    payload = event["payload"]
    return EventArrived(
        event["id"],
        step_id=step.id,
        data=payload.get("data"),
        outcome=payload.get("outcome", "completed"),
        hops=payload.get("hops", 0),
        people=tuple(payload.get(PEOPLE, ())),
    )


def _for_later(event: Any, step: Step, now: datetime) -> Event:
    """Return the event for an instance that has stopped in this run: it waits in the outbox."""
    arrival = {**event, "payload_json": event["payload"], "trace_id": None}
    wait = {"step_id": step.id, "instance_id": step.instance_id, "entity_version": step.entity_version}
    step.event_key = None
    return deliver_arrival(arrival, wait, now)
