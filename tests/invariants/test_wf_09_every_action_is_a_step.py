"""WF-09: whatever a workflow does is a step. Nothing it wrote is without one, and no step without its doing."""

from collections import Counter
from typing import Any
from unittest import mock
from uuid import UUID

from assent.engine.run import Run
from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.authored import END, arrows, call, form, script
from tests.processes.application import calls
from tests.world import (
    ANN,
    ORDER_PATCH,
    ORG,
    create_order,
    drain,
    edit_order,
    entity_row,
    publish_orders,
    publish_steps,
    rows,
    steps_of,
)

STAMP = {"type": "action", "action": "order.update", "payload": {"checked_at": "{now}"}, "run_as": "system"}


def stamped() -> dict[str, Any]:
    """The two who look, and an action of the workflow's own before them."""
    slot = ORDER_PATCH["slots"]["slot:submitted_to_approved"]
    nodes = [*slot["nodes"], {"id": "stamp", **STAMP}]
    edges = [{"from": "in", "to": "stamp"}, {"from": "stamp", "to": "fork"}, *slot["edges"][1:]]
    return {**ORDER_PATCH, "slots": {"slot:submitted_to_approved": {"nodes": nodes, "edges": edges}}}


async def mutations(database: Database) -> list[tuple[str, int]]:
    """What the audit log says that instances wrote: audit id and version."""
    audit = [row for row in await rows(database, "audit_log") if row["instance_id"] is not None]
    return sorted((str(row["id"]), row["to_version"]) for row in audit if row["to_version"] is not None)


async def recorded(database: Database, instance_id: UUID) -> list[tuple[str, int]]:
    """What the steps say that they wrote."""
    steps = await steps_of(database, instance_id)
    found = [step["output_json"]["mutation"] for step in steps if "mutation" in step["output_json"]]
    return sorted((receipt["audit_id"], receipt["version"]) for receipt in found)


async def test_every_write_of_an_instance_is_the_write_of_one_step(
    runtime: Runtime, database: Database, clock: MovedClock
) -> None:
    """Gates, an action and the amendment branch: the audit log and the steps tell the same story."""
    await publish_orders(database, stamped())
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    await edit_order(runtime, entity.id, total=9)
    await drain(runtime)
    clock.advance("1h")
    await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    for step in ("stock", "credit"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=step)
    assert (await entity_row(runtime, entity.id))["state"] == "active"
    assert await mutations(database) == await recorded(database, view.id)
    assert len(await mutations(database)) == 6, "two gates in, two stamps, one amendment, one gate out"


async def test_every_call_has_one_step_and_every_step_its_call(runtime: Runtime, database: Database) -> None:
    steps = [
        script("one"),
        call("a", "tests.mark", input={"what": "'a'"}),
        {"id": "fork", "type": "parallel_split"},
        call("b", "tests.mark", input={"what": "'b'"}),
        call("c", "tests.mark", input={"what": "'c'"}),
        {"id": "join", "type": "parallel_join", "mode": "all"},
        END,
    ]
    transitions = [
        *arrows("one", "a", "fork", "b", "join", "end"),
        *arrows("fork", "c", "join"),
    ]
    await publish_steps(database, "calls", steps, transitions)
    await runtime.org(ORG, ANN).instances.start_many("calls", [{}] * 10)
    await drain(runtime)
    done = [row["node_id"] for row in await rows(database, "workflow_step_executions")]
    assert Counter(await calls(database)) == {"a": 10, "b": 10, "c": 10}
    assert {node: done.count(node) for node in ("a", "b", "c")} == {"a": 10, "b": 10, "c": 10}


async def test_attempt_that_fails_leaves_neither_its_writes_nor_a_step(
    runtime: Runtime, database: Database
) -> None:
    steps = [call("write", "tests.fail", input={"what": "'x'", "fails": "workflow.fails"}), END]
    await publish_steps(database, "failing", steps, arrows("write", "end"))
    await runtime.org(ORG, ANN).instances.start_many("failing", [{"fails": True}])
    await drain(runtime)
    assert await calls(database) == []
    assert await rows(database, "workflow_step_executions") == []
    assert await rows(database, "workflow_step_receipts") == []


async def test_every_dispatch_of_a_node_is_a_row(runtime: Runtime, database: Database) -> None:
    """Counted where handlers are called: what was performed and what was recorded are the same nodes."""
    performed: list[tuple[UUID, str, str]] = []
    perform = Run.perform

    def counting(run: Run, visit: Any) -> Any:
        performed.append((run.instance.id, visit.node.id, visit.step_token_id))
        return perform(run, visit)

    await publish_orders(database, stamped())
    await publish_steps(
        database,
        "asking",
        [form("ask"), script("x"), END],
        [*arrows("ask", "x", event="done"), *arrows("x", "end")],
    )
    with mock.patch.object(Run, "perform", counting):
        view = await runtime.org(ORG, ANN).instances.start("asking")
        await runtime.org(ORG, ANN).instances.advance(view.id, "done")
        entity = await create_order(runtime)
        view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="stock")
        await runtime.core.kernel.mutate(Command(ORG, "order.update", ANN, {"total": 7}, entity.id))
        await drain(runtime)
    steps = await rows(database, "workflow_step_executions")
    rows_of = {
        (s["instance_id"], s["node_id"], s["token_id"]): s for s in steps if s["node_type"] != "control"
    }
    assert Counter(performed) == dict.fromkeys(performed, 1)
    assert set(performed) <= set(rows_of)
    never = [row["status"] for place, row in rows_of.items() if place not in performed]
    assert never == ["cancelled"], "the one at the join, whom the amendment overtook"
