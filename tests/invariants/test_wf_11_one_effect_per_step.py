"""WF-11: what a step wants is sent under one key, and is in the outbox once, however often it is asked for."""

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest

from assent.effects.outbox import NewEffect, enqueue
from assent.model.ids import effect_key, new_id
from assent.model.job import Effect
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Connection, Database
from tests.authored import END, arrows, call
from tests.processes.spawn import children
from tests.world import ANN, ORG, publish_steps, rows

TELL = {"id": "tell", "type": "webhook_out", "url": "https://h.example/", "body": {"n": "{workflow.n}"}}


def wanted(now: datetime, **payload: object) -> NewEffect:
    effect = Effect("webhook", {"url": "https://h.example/", **payload})
    return NewEffect(ORG, new_id(now), step_id := new_id(now), now, f"key of {step_id}", effect)


async def put(database: Database, *some: NewEffect) -> int:
    """Queue effects, and return how many are new."""

    async def work(connection: Connection) -> None:
        await enqueue(connection, some, database.clock.now())

    before = await rows(database, "effects")
    await database.run(work, org_id=ORG)
    return len(await rows(database, "effects")) - len(before)


async def test_same_step_twice_is_one_effect(database: Database, clock: MovedClock) -> None:
    once = wanted(clock.now())
    assert await put(database, once) == 1
    clock.advance("40d")  # into another partition
    assert await put(database, once, once) == 0
    twin = wanted(clock.now(), n=1)
    assert await put(database, twin, twin) == 1
    (first, second) = sorted(await rows(database, "effects"), key=lambda row: row["id"])
    assert first["key"] == effect_key(once.key_of_step, "webhook", once.effect.payload)
    assert first["key"] != second["key"]


async def test_same_step_from_many_sides_at_once_is_one_effect(database: Database, clock: MovedClock) -> None:
    once = wanted(clock.now())
    await asyncio.gather(*(put(database, once) for _ in range(5)))
    assert len(await rows(database, "effects")) == 1


async def test_another_step_another_type_and_another_payload_are_other_effects(
    database: Database, clock: MovedClock
) -> None:
    one = wanted(clock.now())
    others = [
        replace(one, key_of_step="of another"),
        replace(one, effect=Effect("integration", {**one.effect.payload, "operation": "x"})),
        replace(one, effect=Effect("webhook", {**one.effect.payload, "method": "PUT"})),
    ]
    assert await put(database, one, *others) == 4


async def test_key_does_not_depend_on_the_order_of_the_payload() -> None:
    one, other = Effect("email", {"a": 1, "b": 2.0}), Effect("email", {"b": 2, "a": 1})
    assert one.key("a step's") == other.key("a step's") != one.key("another step's")


@pytest.mark.parametrize("number", [1, 3])
async def test_instances_that_several_workers_process_send_once_each(
    runtime: Runtime, database: Database, number: int
) -> None:
    await publish_steps(database, "telling", [TELL, END], arrows("tell", "end"))
    await runtime.org(ORG, ANN).instances.start_many("telling", [{"n": n} for n in range(20)])
    async with children(database, number) as workers:
        await asyncio.gather(*(worker.ask("process_until_empty", limit=5) for worker in workers))
    found = await rows(database, "effects")
    assert sorted(row["payload"]["body"]["n"] for row in found) == list(range(20))
    assert len({row["key"] for row in found}) == 20
    receipts = [
        row
        for row in await rows(database, "workflow_outbox_receipts")
        if row["source_table"] == "side_effects"
    ]
    assert len(receipts) == 20


async def test_step_that_fails_after_its_effect_and_is_tried_again_sends_once(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """The first attempt rolled back with everything it did, its effect and receipt included."""
    steps = [TELL, call("go", "tests.fail", input={"what": "'x'", "fails": "workflow.fails"}), END]
    await publish_steps(database, "telling", steps, arrows("tell", "go", "end"))
    await runtime.org(ORG, ANN).instances.start_many("telling", [{"n": 1, "fails": True}])
    for _ in range(3):
        await EventProcessor(runtime.core).process_events()
        clock.advance("1h")
    assert await rows(database, "effects") == []
    runtime.core.advancing.operations["tests.fail"] = lambda connection, arguments: None
    clock.advance("1h")
    await EventProcessor(runtime.core).process_events()
    assert len(await rows(database, "effects")) == 1
