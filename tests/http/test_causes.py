"""One cause is one event, whatever it says and by whichever way it comes: HTTP, signed, command line, Python, SQL."""

import json

import pytest
from standardwebhooks import Webhook

from assent.model.mutation import ON_EVENT, PARTITION, Event
from assent.runtime.keyed_events import arrival
from tests.cli.desk import Desk
from tests.http.application import app
from tests.world import ORG, drain, rows

KEY = "payment:7"


async def by_python(people, database, clock, cause, amount) -> bool:
    return await app.runtime(database).org(ORG).events.emit(KEY, {"amount": amount}, cause=cause)


async def by_sql(people, database, clock, cause, amount) -> bool:
    async with database.transaction(ORG) as connection:
        return await connection.fetchval(
            "SELECT assent.emit_event($1, $2::jsonb, $3)", KEY, {"amount": amount}, cause
        )


async def by_cli(people, database, clock, cause, amount) -> bool:
    told = await Desk(database.url).json(
        "events", "emit", KEY, "--data", f"amount={amount}", "--cause", cause, user="olga"
    )
    return told["new"]


async def by_http(people, database, clock, cause, amount) -> bool:
    async with people("olga") as client:
        answer = await client.post(f"/api/events/{KEY}", json={"data": {"amount": amount}, "cause": cause})
    assert answer.status_code == 202, answer.text
    return answer.json()["new"]


async def by_signature(people, database, clock, cause, amount) -> bool:
    """As a source of its own, which is there for this delivery only: others need no signature for the key."""
    async with people("adam") as client:
        made = await client.post("/api/event-sources", json={"name": "bank", "key_prefix": "payment:"})
    content = json.dumps({"key": KEY, "data": {"amount": amount}, "cause": cause})
    message, now = f"msg-{cause}-{amount}", clock.now()
    headers = {
        "webhook-id": message,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(made.json()["secret"]).sign(message, now, content),
        "content-type": "application/json",
    }
    async with people("olga") as client:
        answer = await client.post(f"/api/events/{KEY}", content=content, headers=headers)
    async with people("adam") as client:
        assert (await client.delete("/api/event-sources/bank")).status_code == 200
    assert answer.status_code == 202, answer.text
    return answer.json()["new"]


DOORS = [by_python, by_sql, by_cli, by_http, by_signature]


@pytest.mark.parametrize("second", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("first", DOORS, ids=lambda door: door.__name__)
async def test_one_cause_is_one_event_by_any_two_doors(people, furnished, clock, first, second):
    """A cause that comes again is told so and changes nothing, with the same content and with another."""
    for cause, amount in (("same", 1), ("other", 2)):
        assert await first(people, furnished, clock, cause, 1) is True
        assert await second(people, furnished, clock, cause, amount) is False
    assert await second(people, furnished, clock, "third", 1) is True
    told = await rows(furnished, "workflow_events_outbox")
    assert {row["payload_json"]["cause"]: row["payload_json"]["data"] for row in told} == {
        "same": {"amount": 1},
        "other": {"amount": 1},
        "third": {"amount": 1},
    }


async def test_cause_that_was_told_is_told_no_more_after_its_event_was_taken(people, furnished, clock):
    """Routed, kept, waited for and pruned: the receipt stays."""
    assert await by_http(people, furnished, clock, "x1", 1)
    await drain(app.runtime(furnished))
    async with furnished.transaction(None) as connection:
        await connection.execute("DELETE FROM assent.workflow_kept_events WHERE org_id = 'acme'")
        await connection.execute("DELETE FROM assent.workflow_events_outbox WHERE org_id = 'acme'")
    assert not await by_sql(people, furnished, clock, "x1", 2)
    assert not await by_python(people, furnished, clock, "x1", 3)


async def test_event_without_a_cause_is_always_new(people, furnished, clock):
    async with people("olga") as client:
        answers = [await client.post(f"/api/events/{KEY}", json={"data": 1}) for _ in range(2)]
    assert [answer.json()["new"] for answer in answers] == [True, True]


@pytest.mark.parametrize(
    ("key", "cause"),
    [
        ("a", "b"),
        ("a:1", "b"),
        ("a", "1:b"),
        ("zahlung:7", "Überweisung 12"),
        ("支払い:7", "🧾 12"),
        ("a'b\\", '"%s"'),
    ],
)
async def test_sql_and_python_keep_one_receipt_for_one_cause(furnished, clock, key, cause):
    async with furnished.transaction(ORG) as connection:
        assert await connection.fetchval("SELECT assent.emit_event($1, NULL, $2)", key, cause)
        (row,) = await connection.fetch(
            "SELECT event_idempotency_key FROM assent.workflow_events_outbox WHERE payload_json ->> 'cause' = $1",
            cause,
        )
    assert row["event_idempotency_key"] == arrival(ORG, key, clock.now(), cause).key


def test_partition_is_part_of_what_a_cause_is_told_to(clock):
    """A caller of one partition reaches its instances only, and cannot use up a cause of the others."""
    whole = arrival(ORG, KEY, clock.now(), "x1")
    north = arrival(ORG, KEY, clock.now(), "x1", "north")
    assert (north.payload[PARTITION], north.event_type) == ("north", ON_EVENT)
    assert whole.key != north.key != arrival(ORG, KEY, clock.now(), "x1", "south").key
    assert north.key == Event(ORG, whole.id, ON_EVENT, {**north.payload, "data": 5}, None).key
