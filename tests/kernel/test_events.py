"""WF-11: one thing told twice is one event; the same thing happening twice is two."""

from datetime import datetime
from uuid import UUID

from assent.model.ids import new_id
from assent.model.mutation import Event
from assent.outbox.events import emit_events
from assent.store.database import Database
from tests.world import rows

CAUSE = {"cause": "018f0000-0000-7000-8000-000000000001"}


def event(now: datetime, **changes: object) -> Event:
    given = {"payload": CAUSE, "instance_id": UUID(int=1), "entity_version": 1, **changes}
    return Event(org_id="acme", id=new_id(now), event_type="on_mutation", **given)  # type: ignore[arg-type]


async def told(database: Database, *events: Event) -> int:
    async with database.transaction("acme") as connection:
        await emit_events(connection, events, database.clock.now())
    return len(await rows(database, "workflow_events_outbox"))


async def test_one_thing_told_twice_is_one_event(database: Database) -> None:
    now = database.clock.now()
    assert await told(database, event(now)) == 1
    assert await told(database, event(now)) == 1


async def test_one_thing_told_twice_in_one_set_is_one_event(database: Database) -> None:
    now = database.clock.now()
    assert await told(database, event(now), event(now)) == 1


async def test_another_cause_version_or_instance_is_another_event(database: Database) -> None:
    now = database.clock.now()
    others = (
        event(now, payload={"cause": "another"}),
        event(now, entity_version=2),
        event(now, instance_id=UUID(int=2)),
        event(now, instance_id=None),
    )
    assert await told(database, event(now), *others) == 5


async def test_the_order_of_keys_in_a_payload_does_not_make_two_events(database: Database) -> None:
    now = database.clock.now()
    events = (event(now, payload={"a": 1, "b": 2}), event(now, payload={"b": 2, "a": 1}))
    assert await told(database, *events) == 1


async def test_a_listener_is_woken_once_for_a_set(database: Database) -> None:
    now = database.clock.now()
    async with database.listen("assent_events") as listener:
        await told(database, event(now), event(now, entity_version=2))
        assert await listener.wait(timeout_s=10) == {"assent_events"}
