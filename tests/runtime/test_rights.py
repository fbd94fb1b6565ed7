"""Who may start a flow and operate an instance is asked of every caller, also of Python's: not only at the doors."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused
from assent.runtime import InstanceView, Runtime
from assent.store.database import Database
from tests.authored import END, form, line
from tests.world import ANN, OPS, ORDER, ORG, create_order, drain, publish_orders, publish_steps, rows

Order = Callable[[Runtime, UUID, Actor], Awaitable[Any]]

OPERATIONS: dict[str, Order] = {
    "workflows:pause": lambda runtime, one, who: runtime.org(ORG, who).instances.pause(one),
    "workflows:cancel": lambda runtime, one, who: runtime.org(ORG, who).instances.cancel(one, "not needed"),
    "workflows:repair": lambda runtime, one, who: runtime.org(ORG, who).instances.force_fail(one, "hopeless"),
}
WHILE_PAUSED: dict[str, Order] = {
    "workflows:resume": lambda runtime, one, who: runtime.org(ORG, who).instances.resume(one),
    "workflows:retry": lambda runtime, one, who: runtime.org(ORG, who).instances.retry(one),
    "workflows:repair": lambda runtime, one, who: runtime.org(ORG, who).instances.skip(
        one, "fill", "fill->end"
    ),
}
EVE = Actor("eve", capabilities=frozenset({"orders:start", "workflows:read"}))
ABLE = Actor("abe", capabilities=frozenset({"orders:start"}))


async def started(runtime: Runtime, database: Database) -> InstanceView:
    steps = [form("fill"), END]
    await publish_steps(database, "orders", steps, line(*steps), capabilities=["orders:start"])
    return await runtime.org(ORG, ABLE).instances.start("orders")


@pytest.mark.parametrize("capability", OPERATIONS)
async def test_operating_an_instance_takes_its_capability(
    runtime: Runtime, database: Database, capability: str
) -> None:
    view = await started(runtime, database)
    with pytest.raises(Refused, match=f"POLICY_DENIED.*{capability}"):
        await OPERATIONS[capability](runtime, view.id, EVE)
    (before,) = await rows(database, "workflow_instances")
    assert (before["status"], before["version"]) == ("running", view.version)
    await OPERATIONS[capability](runtime, view.id, Actor("eve", capabilities=frozenset({capability})))


@pytest.mark.parametrize("capability", WHILE_PAUSED)
async def test_so_does_what_can_be_done_while_it_is_paused(
    runtime: Runtime, database: Database, capability: str
) -> None:
    view = await started(runtime, database)
    await runtime.org(ORG, OPS).instances.pause(view.id)
    with pytest.raises(Refused, match=f"POLICY_DENIED.*{capability}"):
        await WHILE_PAUSED[capability](runtime, view.id, EVE)
    assert (await rows(database, "workflow_instances"))[0]["status"] == "paused"


async def test_the_system_operates_without_being_asked(runtime: Runtime, database: Database) -> None:
    view = await started(runtime, database)
    assert (await runtime.org(ORG, SYSTEM).instances.pause(view.id)).status == "paused"
    assert (await runtime.org(ORG, SYSTEM).instances.force_fail(view.id, "stuck")).status == "failed"


async def test_whoever_started_a_flow_may_call_it_off(runtime: Runtime, database: Database) -> None:
    view = await started(runtime, database)
    assert (
        await runtime.org(ORG, Actor("abe")).instances.cancel(view.id, "not needed")
    ).status == "cancelled"


async def test_starting_a_flow_takes_its_capabilities(runtime: Runtime, database: Database) -> None:
    view = await started(runtime, database)
    with pytest.raises(Refused, match=r"POLICY_DENIED.*orders:start"):
        await runtime.org(ORG, ANN).instances.start("orders")
    with pytest.raises(Refused, match=r"POLICY_DENIED.*orders:start"):
        await runtime.org(ORG, ANN).instances.start_many("orders", [{}])
    assert [row["id"] for row in await rows(database, "workflow_instances")] == [view.id]
    assert await rows(database, "workflow_events_outbox") == []


async def test_a_key_shows_nobody_what_they_may_not_start(runtime: Runtime, database: Database) -> None:
    await started(runtime, database)
    first = await runtime.org(ORG, ABLE).instances.start("orders", idempotency_key="k")
    assert (await runtime.org(ORG, ABLE).instances.start("orders", idempotency_key="k")).id == first.id
    with pytest.raises(Refused, match="POLICY_DENIED"):
        await runtime.org(ORG, ANN).instances.start("orders", idempotency_key="k")


async def test_what_was_permitted_when_it_was_asked_starts_in_the_background(
    runtime: Runtime, database: Database
) -> None:
    """The event knows who asked by name only."""
    await started(runtime, database)
    (instance_id,) = await runtime.org(ORG, ABLE).instances.start_many("orders", [{}])
    await drain(runtime)
    assert instance_id in {row["id"] for row in await rows(database, "workflow_instances")}


async def test_a_flow_that_was_not_there_when_it_was_asked_for_is_asked_about_when_it_starts(
    runtime: Runtime, database: Database
) -> None:
    early = await runtime.org(ORG, ABLE).instances.start_many("orders", [{}])
    await started(runtime, database)
    await drain(runtime)
    assert early[0] not in {row["id"] for row in await rows(database, "workflow_instances")}


async def test_trying_a_dead_letter_again_takes_the_right_to_retry(runtime: Runtime) -> None:
    with pytest.raises(Refused, match=r"POLICY_DENIED.*workflows:retry"):
        await runtime.org(ORG, EVE).dead_letters.retry(UUID(int=1), "event")


async def test_whoever_created_an_entity_does_not_call_its_workflow_off(database: Database) -> None:
    """What the contract asks of an entity is not the business of the clerk who wrote it."""
    runtime = App([ORDER]).runtime(database)
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    with pytest.raises(Refused, match=r"POLICY_DENIED.*workflows:cancel"):
        await runtime.org(ORG, ANN).instances.cancel(view.id, "not needed")
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["subject_id"]) == ("running", "ann")
