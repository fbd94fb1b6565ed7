"""Events under a key: told to every step that waits for it, else kept for the first that will (D32)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from assent.model.ids import new_id
from assent.model.keys import EventKey
from assent.model.mutation import ON_EVENT, PARTITION, Event
from assent.outbox.emit import emit_events
from assent.runtime.rotation import OrgRotation
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


def arrival(
    org_id: str,
    key: str,
    now: datetime,
    cause: str | None = None,
    partition_id: str | None = None,
    **news: Any,
) -> Event:
    """Something has come under a key, for the steps that wait for it; one cause is told once (WF-11).

    With a partition it is for the instances of that partition only.
    """
    event_id = new_id(now)
    about = {"key": key} | ({PARTITION: partition_id} if partition_id is not None else {})
    return Event(
        org_id,
        event_id,
        ON_EVENT,
        {"cause": str(event_id) if cause is None else cause, **about, **news},
        None,
    )


async def route_arrivals(connection: Connection, turns: OrgRotation, limit: int, now: datetime) -> int:
    """Take a batch of arrivals to where they are waited for; answers how many there were."""

    async def claim(after: str) -> list[Any]:
        return await connection.fetch(_SQL.claim_arrivals, limit, after)

    claimed = await turns.claim(claim, limit, "id")
    if not claimed:
        return 0
    arrivals = [row for row in claimed if isinstance(row["payload_json"].get("key"), str)]
    await _refuse(connection, [row for row in claimed if row not in arrivals])
    waits = await _take_waits(connection, arrivals)
    # Each wait is for one event: the first of a key takes all that it may reach, the next ones are kept.
    found = [(row, _reached(row, waits)) for row in arrivals]
    await emit_events(
        connection, [deliver_arrival(row, wait, now) for row, some in found for wait in some], now
    )
    if kept := [_kept(row) for row, some in found if not some]:
        await connection.execute(_SQL.keep_events, kept)
    await connection.execute(_SQL.complete_events, *_keys(arrivals), [None] * len(arrivals), now)
    return len(claimed)


async def _take_waits(connection: Connection, arrivals: Sequence[Any]) -> dict[EventKey, list[Any]]:
    """The steps that these may reach; from now on they wait for what is on its way to them."""
    found: dict[EventKey, list[Any]] = {}
    if arrivals:
        orgs, texts = zip(*(_key(row) for row in arrivals), strict=True)
        partitions = [partition_of(row["payload_json"]) for row in arrivals]
        await connection.execute(_SQL.lock_event_keys, orgs, texts)
        for row in await connection.fetch(_SQL.take_waits, orgs, texts, partitions):
            found.setdefault((row["org_id"], row["event_key"]), []).append(row)
    return found


def _reached(arrival: Any, waits: dict[EventKey, list[Any]]) -> list[Any]:
    """The waits that an arrival may reach, taken out of those that are left."""
    left, partition = waits.get(_key(arrival), []), partition_of(arrival["payload_json"])
    waits[_key(arrival)] = [wait for wait in left if partition not in (None, wait["partition_id"])]
    return [wait for wait in left if partition in (None, wait["partition_id"])]


def partition_of(payload: Mapping[str, Any]) -> str | None:
    """The one partition that an event is for; all of them without."""
    found = payload.get(PARTITION)
    return found if isinstance(found, str) else None


async def _refuse(connection: Connection, arrivals: Sequence[Any]) -> None:
    """An arrival without a key can be nobody's."""
    if arrivals:
        await connection.execute(_SQL.give_up_arrivals, *_keys(arrivals))


def deliver_arrival(row: Any, wait: Any, now: datetime) -> Event:
    """What an instance hears of an arrival that one of its steps waits for."""
    payload = row["payload_json"]
    news = {"cause": str(row["id"]), "step": str(wait["step_id"]), "key": payload["key"]}
    news |= {name: payload[name] for name in ("data", "outcome") if name in payload}
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
