"""Events under a key: whoever waits for one is told, once, whatever came first (D32)."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from assent.engine.run import EVENT_HOPS_MAX
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.runtime.event_sources import create_event_source
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.timers import Timers
from tests.authored import END, arrows, call, form, script
from tests.postgres import START
from tests.processes.application import app as processes_app
from tests.processes.application import keep_calls
from tests.processes.spawn import children, closed_gate, wait_until_blocked
from tests.rows import insert_event
from tests.world import ANN, OPS, ORG, drain, publish_steps, rows, steps_of

KEY = "payment:{workflow.order}"
PAID = {"id": "paid", "type": "wait", "key": KEY, "output": {"amount": "result.amount"}}


@pytest.fixture
async def runtime(database: Database) -> Runtime:
    await keep_calls(database)
    return processes_app.runtime(database)


async def publish_paid(database: Database, **more: Any) -> None:
    await publish_steps(database, "paid", [{**PAID, **more}, END], arrows("paid", "end"))


async def start(runtime: Runtime, order: str, flow: str = "paid") -> UUID:
    return (await runtime.org(ORG, ANN).instances.start(flow, {"order": order})).id


async def instance_of(database: Database, instance_id: UUID) -> dict[str, Any]:
    (found,) = [row for row in await rows(database, "workflow_instances") if row["id"] == instance_id]
    return found


async def amounts(database: Database) -> list[Any]:
    """What each instance was paid, those that wait still as None."""
    found = await rows(database, "workflow_instances")
    return [row["context_json"].get("amount") for row in sorted(found, key=lambda row: row["id"])]


async def open_rows(database: Database) -> list[Any]:
    """What is left in the queues."""
    events = [r for r in await rows(database, "workflow_events_outbox") if r["status"] != "completed"]
    return [*events, *await rows(database, "workflow_kept_events"), *await rows(database, "workflow_batches")]


async def test_event_that_comes_after_the_wait_is_told_to_it(runtime: Runtime, database: Database) -> None:
    await publish_paid(database)
    instance_id = await start(runtime, "7")
    await runtime.org(ORG).events.emit("payment:7", {"amount": 12})
    await drain(runtime)
    found = await instance_of(database, instance_id)
    assert (found["status"], found["context_json"]["amount"]) == ("completed", 12)
    assert await open_rows(database) == []


async def test_event_that_comes_before_the_wait_is_kept_and_found(
    runtime: Runtime, database: Database
) -> None:
    await publish_paid(database)
    await runtime.org(ORG).events.emit("payment:7", {"amount": 12})
    await drain(runtime)
    assert len(await rows(database, "workflow_kept_events")) == 1
    assert (await runtime.org(ORG, ANN).instances.start("paid", {"order": "7"})).status == "completed"
    assert (await runtime.org(ORG, ANN).instances.start("paid", {"order": "7"})).status == "running", (
        "it was found once"
    )
    assert await amounts(database) == [12, None]
    assert await open_rows(database) == []


async def test_event_satisfies_every_open_wait_on_its_key_and_no_other(
    runtime: Runtime, database: Database
) -> None:
    await publish_paid(database)
    for order in ("7", "7", "8"):
        await start(runtime, order)
    await runtime.org(ORG).events.emit("payment:7", {"amount": 12})
    await drain(runtime)
    assert await amounts(database) == [12, 12, None]
    assert await start(runtime, "7")
    assert await amounts(database) == [12, 12, None, None], "whoever waits later waits for the next"


async def test_cause_that_tells_twice_is_one_event(runtime: Runtime, database: Database) -> None:
    await publish_paid(database)
    assert await runtime.org(ORG).events.emit("payment:7", {"amount": 1}, cause="bank-1")
    assert not await runtime.org(ORG).events.emit("payment:7", {"amount": 1}, cause="bank-1")
    await drain(runtime)
    for _ in range(2):
        await start(runtime, "7")
    assert await amounts(database) == [1, None]


@pytest.mark.parametrize("batch", [1, 200])
async def test_kept_events_go_to_those_who_wait_in_order_one_each(
    runtime: Runtime, database: Database, batch: int
) -> None:
    await publish_paid(database)
    for amount in (1, 2):
        await runtime.org(ORG).events.emit("payment:7", {"amount": amount})
    await drain(runtime)
    await runtime.org(ORG, ANN).instances.start_many("paid", [{"order": "7"}] * 3)
    await drain(runtime, batch)
    assert await amounts(database) == [1, 2, None]


@pytest.mark.parametrize("between", ["nothing", "routed", "handled"])
async def test_second_event_is_kept_for_the_next_wait_however_soon_it_comes(
    runtime: Runtime, database: Database, between: str
) -> None:
    """Two instalments: the second must not be lost because the first was still on its way."""
    first, second = (
        {**PAID, "id": "first", "output": {"a": "result.amount"}},
        {**PAID, "output": {"b": "result.amount"}},
    )
    await publish_steps(database, "paid", [first, second, END], arrows("first", "paid", "end"))
    instance_id = await start(runtime, "7")
    for amount in (1, 2):
        await runtime.org(ORG).events.emit("payment:7", {"amount": amount})
        if between == "routed":
            await EventProcessor(runtime.core).route_arrivals()
        elif between == "handled":
            await drain(runtime)
    await drain(runtime)
    found = await instance_of(database, instance_id)
    assert (found["status"], found["context_json"]) == ("completed", {"order": "7", "a": 1, "b": 2})


TELL = {"id": "tell", "type": "emit", "key": KEY, "data": {"amount": "{workflow.amount}"}}


async def publish_tell(database: Database, *more: dict[str, Any]) -> None:
    steps = [TELL, *more, END]
    await publish_steps(database, "tell", steps, arrows(*[step["id"] for step in steps]))


async def test_event_of_a_step_reaches_every_step_that_waits_for_its_key(
    runtime: Runtime, database: Database
) -> None:
    await publish_paid(database)
    await publish_tell(database)
    for order in ("7", "7", "8"):
        await start(runtime, order)
    teller = await runtime.org(ORG, ANN).instances.start("tell", {"order": "7", "amount": 12})
    assert teller.status == "completed"
    await drain(runtime)
    assert await amounts(database) == [12, 12, None, 12]
    assert await open_rows(database) == []


async def test_event_of_a_step_is_kept_for_the_first_that_will_wait(
    runtime: Runtime, database: Database
) -> None:
    await publish_paid(database)
    await publish_tell(database)
    await runtime.org(ORG, ANN).instances.start("tell", {"order": "7", "amount": 12})
    await drain(runtime)
    assert (await runtime.org(ORG, ANN).instances.start("paid", {"order": "7"})).status == "completed"


async def start_answering(
    runtime: Runtime, database: Database, hears: str, says: str, *between: dict[str, Any]
) -> UUID:
    """Start a flow that answers every event under one key with an event under another, for ever."""
    steps = [
        {"id": "hear", "type": "wait", "key": hears},
        *between,
        {"id": "say", "type": "emit", "key": says},
        script("again"),
        END,
    ]
    names = [step["id"] for step in steps[:-1]]
    ways = [
        *arrows(*names, "hear"),
        {"from": "hear", "event": "completed", "to": "end", "condition": "false"},
    ]
    await publish_steps(database, says, steps, ways)
    return (await runtime.org(ORG, ANN).instances.start(says)).id


async def test_flows_that_emit_to_each_other_pause_at_the_limit_and_go_on_when_resumed(
    runtime: Runtime, database: Database
) -> None:
    ids = [await start_answering(runtime, database, *keys) for keys in (("ping", "pong"), ("pong", "ping"))]
    await runtime.org(ORG).events.emit("ping")
    for round_number in (1, 2):
        await drain(runtime)
        found = [await instance_of(database, one) for one in ids]
        (paused,) = [row for row in found if row["status"] == "paused"]
        assert paused["incident"]["code"] == "EVENT_HOPS_LIMIT"
        assert f"more than {EVENT_HOPS_MAX} events" in paused["incident"]["message"]
        said = [step for one in ids for step in await steps_of(database, one) if step["node_id"] == "say"]
        emitted = [step for step in said if step["status"] == "completed"]
        assert len(emitted) == round_number * EVENT_HOPS_MAX
        kept, folded = await runtime.org(ORG).operations.fold(paused["id"])
        assert kept == folded
        await runtime.org(ORG, OPS).instances.resume(paused["id"])


async def test_act_of_a_person_and_a_timer_begin_the_count_of_events_again(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    asked = await start_answering(runtime, database, "ping", "pong", form("ask"))
    await start_answering(runtime, database, "pong", "ping", {"id": "pause", "type": "wait", "for": "1h"})
    await runtime.org(ORG).events.emit("ping")
    for _ in range(2):
        await drain(runtime)
        await runtime.org(ORG, ANN).instances.advance(asked, "completed")
        await drain(runtime)
        clock.advance("1h")
        await Timers(WorkerContext(database)).run_once()
    await drain(runtime)
    payloads = [row["payload_json"] for row in await rows(database, "workflow_events_outbox")]
    assert [one["hops"] for one in payloads if one["cause"].startswith("step:")] == [1] * 4


async def test_step_emits_its_event_once_under_its_own_key(runtime: Runtime, database: Database) -> None:
    """A later step fails and is tried again; the step that emitted is not."""
    await publish_tell(database, call("broken", "not.there"))
    teller = await runtime.org(ORG, ANN).instances.start("tell", {"order": "7", "amount": 12})
    assert teller.status == "paused"
    await runtime.org(ORG, OPS).instances.retry(teller.id)
    (told,) = await rows(database, "workflow_events_outbox")
    (step,) = [one for one in await steps_of(database, teller.id) if one["node_type"] == "emit"]
    assert told["payload_json"]["cause"] == f"step:{step['idempotency_key']}"
    assert told["payload_json"]["key"] == step["output_json"]["event_key"] == "payment:7"


async def test_event_of_a_step_is_for_the_partition_of_its_instance(
    runtime: Runtime, database: Database
) -> None:
    await publish_paid(database)
    await publish_tell(database)
    for partition in ("north", "south", None):
        await runtime.org(ORG, ANN, partition_id=partition).instances.start("paid", {"order": "7"})
    await runtime.org(ORG, ANN, partition_id="north").instances.start("tell", {"order": "7", "amount": 12})
    await drain(runtime)
    assert await amounts(database) == [12, None, None, 12]


async def test_step_cannot_emit_under_a_key_of_a_source_that_signs_its_events(
    runtime: Runtime, database: Database
) -> None:
    """Neither of the two orgs learns of the other's sources: the same key is free in an org without one."""
    await publish_tell(database)
    async with database.transaction(None) as connection:
        for org, prefix in ((ORG, "pay"), ("other", "order")):
            await create_event_source(connection, org, "bank", prefix, None, "ops", START)
    teller = await runtime.org(ORG, ANN).instances.start("tell", {"order": "7", "amount": 12})
    assert (teller.status, teller.incident and teller.incident["code"]) == ("paused", "KEY_IS_SIGNED")
    assert await rows(database, "workflow_events_outbox") == []


async def test_event_of_a_step_goes_with_the_transaction_of_the_step(
    runtime: Runtime, database: Database
) -> None:
    async def start_and_fail() -> None:
        async with database.transaction(ORG) as connection:
            async with runtime.within(connection, ORG) as here:
                await here.by(ANN).instances.start("tell", {"order": "7", "amount": 12})
            raise ZeroDivisionError

    await publish_tell(database)
    with pytest.raises(ZeroDivisionError):
        await start_and_fail()
    assert await rows(database, "workflow_events_outbox") == []


async def test_time_that_is_over_is_not_an_event_without_data(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """Nothing was paid is one thing, an empty payment another (D32)."""
    steps = [{**PAID, "timeout": "1h", "on_timeout": "late"}, script("late"), END]
    await publish_steps(database, "paid", steps, [*arrows("paid", "end"), *arrows("late", "end")])
    ids = [await start(runtime, order) for order in ("7", "8")]
    await runtime.org(ORG).events.emit("payment:7")
    await drain(runtime)
    clock.advance("1h")
    assert (await Timers(WorkerContext(database)).run_once()).count == 1
    await drain(runtime)
    outputs = []
    for instance_id in ids:
        (step,) = [s for s in await steps_of(database, instance_id) if s["node_id"] == "paid"]
        outputs.append({name: step["output_json"].get(name) for name in ("outcome", "timed_out", "data")})
    assert outputs == [
        {"outcome": "completed", "timed_out": None, "data": None},
        {"outcome": "timeout", "timed_out": True, "data": None},
    ]
    assert [row["context_json"].get("late") for row in await rows(database, "workflow_instances")].count(
        True
    ) == 1


async def test_events_of_another_org_are_another_orgs(runtime: Runtime, database: Database) -> None:
    await publish_paid(database)
    instance_id = await start(runtime, "7")
    await runtime.org("globex").events.emit("payment:7", {"amount": 1})
    await drain(runtime)
    assert (await instance_of(database, instance_id))["status"] == "running"
    assert [row["org_id"] for row in await rows(database, "workflow_kept_events")] == ["globex"]
    await runtime.org(ORG).events.emit("payment:7", {"amount": 2})
    await drain(runtime)
    assert await amounts(database) == [2]


async def test_events_that_are_kept_for_another_org_stay_there(runtime: Runtime, database: Database) -> None:
    """Also where a worker brings the token to its wait: row security does not hold the owner to an org."""
    await publish_paid(database)
    await runtime.org("globex").events.emit("payment:7", {"amount": 1})
    await drain(runtime)
    await runtime.org(ORG, ANN).instances.start_many("paid", [{"order": "7"}])
    await drain(runtime)
    assert await amounts(database) == [None]
    assert [row["org_id"] for row in await rows(database, "workflow_kept_events")] == ["globex"]


async def test_kept_event_is_found_behind_an_older_one_of_another_org(
    runtime: Runtime, database: Database
) -> None:
    await publish_paid(database)
    for org_id, amount in (("globex", 1), (ORG, 5)):
        await runtime.org(org_id).events.emit("payment:7", {"amount": amount})
        await drain(runtime)
    await runtime.org(ORG, ANN).instances.start_many("paid", [{"order": "7"}])
    await drain(runtime)
    assert await amounts(database) == [5]
    assert [row["org_id"] for row in await rows(database, "workflow_kept_events")] == ["globex"]


async def test_arrival_without_a_key_is_a_dead_letter_and_the_others_arrive(
    runtime: Runtime, database: Database
) -> None:
    await publish_paid(database)
    await start(runtime, "7")
    async with database.transaction(None) as connection:
        for payload in ({}, {"key": None}, {"key": 7}):
            await insert_event(connection, instance_id=None, event_type="on_event", payload_json=payload)
    await runtime.org(ORG).events.emit("payment:7", {"amount": 3})
    await drain(runtime)
    assert await amounts(database) == [3]
    assert {row.error for row in await runtime.org(ORG).dead_letters.list("event")} == {
        "it came without a key"
    }


def side_by_side(mode: str, *branches: dict[str, Any]) -> dict[str, Any]:
    """A flow of branches of one step each."""
    steps = [
        {"id": "fork", "type": "parallel_split"},
        *branches,
        {"id": "join", "type": "parallel_join", "mode": mode},
    ]
    transitions = [arrow for branch in branches for arrow in arrows("fork", branch["id"], "join")]
    return {"steps": [*steps, END], "transitions": [*transitions, *arrows("join", "end")]}


def wait(name: str) -> dict[str, Any]:
    return {"id": name, "type": "wait", "key": f"{name}:{{workflow.order}}", "output": {name: "result"}}


async def test_event_of_a_branch_that_lost_is_left_for_others(runtime: Runtime, database: Database) -> None:
    """Both came before anybody waited; an ANY join takes one, and the other's is still there."""
    await publish_steps(database, "both", **side_by_side("any", wait("a"), wait("b")))
    for key in ("a:7", "b:7"):
        await runtime.org(ORG).events.emit(key)
    await drain(runtime)
    view = await runtime.org(ORG, ANN).instances.start("both", {"order": "7"})
    assert view.status == "completed"
    assert [row["event_key"] for row in await rows(database, "workflow_kept_events")] == ["b:7"]


async def test_event_for_an_instance_that_pauses_in_the_same_run_waits_for_it(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "both", **side_by_side("all", wait("a"), call("broken", "no.such")))
    await runtime.org(ORG).events.emit("a:7", 4)
    await drain(runtime)
    view = await runtime.org(ORG, ANN).instances.start("both", {"order": "7"})
    assert view.status == "paused"
    await drain(runtime)
    view = await runtime.org(ORG, OPS).instances.skip(view.id, "broken", "broken->join")
    await drain(runtime)
    found = await instance_of(database, view.id)
    assert (found["status"], found["context_json"].get("a")) == ("completed", 4)
    assert await open_rows(database) == []


async def test_event_that_comes_while_somebody_begins_to_wait_is_not_lost(
    runtime: Runtime, database: Database
) -> None:
    """Staged: a process has begun to wait for `a` and not committed, when another brings `a`."""
    steps = side_by_side("all", wait("a"), wait("b"))
    hold = call("hold", "tests.gate", input={"what": "'held'"})
    steps["steps"].insert(1, hold)
    steps["transitions"] = [t for t in steps["transitions"] if t["from"] != "b"] + arrows("b", "hold", "join")
    await publish_steps(database, "both", **steps)
    await runtime.org(ORG).events.emit("b:7")
    await drain(runtime)
    async with children(database, 2) as (starter, router):
        async with closed_gate(database) as observer:
            starting = asyncio.create_task(starter.ask("start", flow="both", data={"order": "7"}))
            await wait_until_blocked(observer, 1)
            await runtime.org(ORG).events.emit("a:7")
            routing = asyncio.create_task(router.ask("process_until_empty"))
            await wait_until_blocked(observer, 2)
        assert (await starting)["waiting"] == ["a"]
        await routing
    (instance,) = await rows(database, "workflow_instances")
    assert instance["status"] == "completed"
    assert await open_rows(database) == []
