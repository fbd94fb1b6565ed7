"""Events that came before anybody waited for them (D32): whoever waits now finds them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from assent.engine.inputs import EventArrived
from assent.engine.instance import Step
from assent.model.mutation import Event
from assent.outbox.emit import emit_events
from assent.runtime.batch import Execution
from assent.runtime.keyed_events import deliver_arrival
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

Wait = tuple[Execution, Step]


async def feed_kept_events(connection: Connection, jobs: Sequence[Execution], now: datetime) -> bool:
    """Ask for the next wait of every instance; true when somebody asked.

    One wait at a time: what the first one finds may end the others, and then their events stay for somebody else.
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
    """The kept event of each wait that there is one for, by the place of the wait, from 1."""
    orgs, keys = [step.org_id for _, step in waits], [step.event_key for _, step in waits]
    partitions = [job.run.instance.partition_id for job, _ in waits]
    await connection.execute(_SQL.lock_event_keys, orgs, keys)
    rows = await connection.fetch(_SQL.take_kept_events, orgs, keys, partitions)
    return {
        row["place"]: {name: row[name] for name in ("org_id", "id", "payload", "created_at")} for row in rows
    }


def _arrived(event: Any, step: Step) -> EventArrived:
    payload = event["payload"]
    outcome = payload.get("outcome", "completed")
    return EventArrived(event["id"], step_id=step.id, data=payload.get("data"), outcome=outcome)


def _for_later(event: Any, step: Step, now: datetime) -> Event:
    """The instance stands still in this very run: the event waits for it in the outbox."""
    arrival = {**event, "payload_json": event["payload"], "trace_id": None}
    wait = {"step_id": step.id, "instance_id": step.instance_id, "entity_version": step.entity_version}
    step.event_key = None
    return deliver_arrival(arrival, wait, now)
