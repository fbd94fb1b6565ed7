"""Duties and the real engine together: what one tells, the other does, and what is tidied away is not missed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from assent.model.ids import new_id
from assent.model.mutation import Event
from assent.outbox.events import count_emitted
from assent.runtime.views import list_steps
from assent.store.rows import Row
from assent.worker.duty import RunResult, WorkerContext
from assent.worker.events import Events
from assent.worker.rescue import Stuck
from assent.worker.timers import Timeouts, Timers
from assent.worker.upkeep import Compact, Prune, Retention
from tests.authored import END, arrows, form, script
from tests.rows import insert, update
from tests.workers import run_until_done, with_options
from tests.world import ANN, OPS, ORG, count, fetch, publish_steps, steps_of

WAIT = {"id": "wait", "type": "wait", "for": "2h"}


@pytest.fixture
def place(database, runtime) -> WorkerContext:
    return WorkerContext(database, runtime=runtime)


async def status_of(database, view) -> str:
    sql = "SELECT status FROM assent.workflow_instances WHERE org_id = 'acme' AND id = $1"
    (row,) = await fetch(database, sql, view.id)
    return row["status"]


async def rows_of_history(database, view) -> list[Row]:
    async with database.transaction(ORG) as connection:
        return await list_steps(connection, ORG, view.id, None, 100)


async def tell_and_process(place: WorkerContext) -> int:
    """What a worker does about time: timers, timeouts, then the events that they made."""
    for duty in (Timers(place), Timeouts(place)):
        await run_until_done(duty)
    return (await run_until_done(Events(place))).count


async def test_waiting_flow_goes_on_when_its_time_has_come_and_only_then(place, runtime, database, clock):
    await publish_steps(database, "a.wait", [WAIT, END], arrows("wait", "end"))
    view = await runtime.org(ORG, ANN).instances.start("a.wait")
    clock.advance("119m")
    assert await tell_and_process(place) == 0
    clock.advance("1m")
    assert await tell_and_process(place) == 1
    assert await status_of(database, view) == "completed"
    assert await tell_and_process(place) == 0


async def test_form_that_nobody_fills_in_takes_its_timeout(place, runtime, database, clock):
    steps = [form("ask", timeout="1h", on_timeout="late"), script("late"), END]
    await publish_steps(
        database, "a.form", steps, [*arrows("ask", "end", event="done"), *arrows("late", "end")]
    )
    view = await runtime.org(ORG, ANN).instances.start("a.form")
    clock.advance("1h")
    assert await tell_and_process(place) == 1
    assert await status_of(database, view) == "completed"
    assert [step["node_id"] for step in await steps_of(database, view.id)][-2:] == ["late", "end"]


async def test_timer_of_a_paused_instance_waits_until_it_goes_on(place, runtime, database, clock):
    await publish_steps(database, "a.wait", [WAIT, END], arrows("wait", "end"))
    view = await runtime.org(ORG, ANN).instances.start("a.wait")
    await runtime.org(ORG, OPS).instances.pause(view.id)
    clock.advance("3h")
    await tell_and_process(place)
    assert await status_of(database, view) == "paused"
    await runtime.org(ORG, OPS).instances.resume(view.id)
    await tell_and_process(place)
    assert await status_of(database, view) == "completed"


async def test_flow_whose_whole_time_is_over_goes_where_it_says_and_expires_once(
    place, runtime, database, clock
):
    steps = [form("ask"), form("expired"), END]
    transitions = [*arrows("ask", "end", event="done"), *arrows("expired", "end", event="done")]
    await publish_steps(database, "a.slow", steps, transitions, timeout="72h", on_timeout="expired")
    view = await runtime.org(ORG, ANN).instances.start("a.slow")
    clock.advance("72h")
    assert await tell_and_process(place) == 1
    for _ in range(3):
        clock.advance("100d")
        await run_until_done(Prune(place))
        assert await tell_and_process(place) == 0
    (waiting,) = (await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="expired"),)
    assert waiting.status == "completed"


async def test_instance_that_is_compacted_and_pruned_can_still_be_rebuilt(place, runtime, database, clock):
    steps = [
        script("begin", n="1"),
        {"id": "fork", "type": "parallel_split"},
        form("left"),
        form("right"),
        {"id": "join", "type": "parallel_join", "mode": "all"},
        {"id": "choice", "type": "condition"},
        form("last"),
        END,
    ]
    transitions = [
        *arrows("begin", "fork", "left"),
        *arrows("fork", "right"),
        *arrows("left", "join", event="done"),
        *arrows("right", "join", event="done"),
        *arrows("join", "choice"),
        {"from": "choice", "to": "begin", "condition": "workflow.again == true", "priority": 1},
        {"from": "choice", "to": "last", "priority": 2},
        *arrows("last", "end", event="done"),
    ]
    await publish_steps(database, "a.loop", steps, transitions)
    view = await runtime.org(ORG, ANN).instances.start("a.loop")
    for again in (True, False):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", {"again": again}, step="left")
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", {"more": "x" * 100}, step="right")
    history = await runtime.org(ORG, ANN).instances.history(view.id)
    assert any(step.finished_by == "ann" for step in history.items)
    rows = await rows_of_history(database, view)
    assert any("evaluations" in row["output_json"] for row in rows)
    clock.advance("400d")
    assert (await run_until_done(Compact(place))).count > 0
    assert all("evaluations" not in step["output_json"] for step in await steps_of(database, view.id))
    assert await runtime.org(ORG, ANN).instances.history(view.id) == history
    assert await rows_of_history(database, view) == rows
    kept, folded = await runtime.org(ORG).operations.fold(view.id)
    assert kept == folded
    assert (await runtime.org(ORG, ANN).instances.advance(view.id, "done")).status == "completed"


async def test_late_event_for_an_instance_whose_receipts_are_gone_does_nothing(
    place, runtime, database, clock
):
    """Why pruning is safe (D27): terminal is final, with or without receipts."""
    await publish_steps(database, "a.wait", [WAIT, END], arrows("wait", "end"))
    view = await runtime.org(ORG, ANN).instances.start("a.wait")
    clock.advance("2h")
    await run_until_done(Timers(place))
    (event,) = await fetch(
        database, "SELECT payload_json FROM assent.workflow_events_outbox WHERE org_id = 'acme'"
    )
    await run_until_done(Events(place))
    clock.advance("91d")
    assert (await run_until_done(Prune(place))).parts["step_receipts"] > 0
    before = await steps_of(database, view.id)
    async with database.transaction(None) as connection:
        late = Event(ORG, new_id(clock.now()), "on_timer", event["payload_json"], view.id)
        assert await count_emitted(connection, [late], clock.now()) == 1
    assert await run_until_done(Events(place)) == RunResult(1)
    assert await steps_of(database, view.id) == before
    assert await status_of(database, view) == "completed"


async def test_retention_leaves_nothing_of_an_ended_flow(place, runtime, database, clock):
    async with database.transaction(None) as connection:
        await insert(connection, "orgs", org_id=ORG, settings={"retention_days": 30})
    await publish_steps(database, "a.wait", [WAIT, END], arrows("wait", "end"))
    for _ in range(2):
        await runtime.org(ORG, ANN).instances.start("a.wait")
    clock.advance("2h")
    await tell_and_process(place)
    running = await runtime.org(ORG, ANN).instances.start("a.wait")
    clock.advance("31d")
    assert (await Retention(place).run_once()).count == 2
    left = await fetch(
        database, "SELECT DISTINCT instance_id FROM assent.workflow_step_executions WHERE org_id = 'acme'"
    )
    assert [row["instance_id"] for row in left] == [running.id]
    assert await count(database, "workflow_events_outbox") == 0


async def lose_the_waiting_step(database) -> None:
    """What only a mistake does: an instance that runs, and nothing in it waits."""
    async with database.transaction(None) as connection:
        (step,) = await connection.fetch(
            "SELECT * FROM assent.workflow_step_executions WHERE org_id = 'acme' AND status = 'pending'"
        )
        await update(connection, "workflow_step_executions", step, status="cancelled")


async def test_resting_instance_is_never_called_stuck(place, runtime, database, clock):
    await publish_steps(database, "a.form", [form("ask"), END], arrows("ask", "end", event="done"))
    await runtime.org(ORG, ANN).instances.start("a.form")
    clock.advance("365d")
    assert (await Stuck(place).run_once()).count == 0


async def test_stuck_instance_is_failed_by_the_runtime_where_an_operator_chose_so(
    place, runtime, database, clock
):
    await publish_steps(database, "a.form", [form("ask"), END], arrows("ask", "end", event="done"))
    view = await runtime.org(ORG, ANN).instances.start("a.form")
    await lose_the_waiting_step(database)
    clock.advance(timedelta(hours=1))
    duty = Stuck(with_options(place, stuck_repair="force_fail"))
    assert await duty.run_once() == RunResult(1, parts={"stuck": 1, "repaired": 1})
    assert await status_of(database, view) == "failed"
    assert (await duty.run_once()).count == 0


async def test_stuck_instance_is_put_to_work_again_where_an_operator_chose_so(
    place, runtime, database, clock
):
    await publish_steps(database, "a.form", [form("ask"), END], arrows("ask", "end", event="done"))
    await runtime.org(ORG, ANN).instances.start("a.form")
    await lose_the_waiting_step(database)
    clock.advance(timedelta(hours=1))
    duty = Stuck(replace(with_options(place, stuck_repair="reenqueue")))
    assert (await duty.run_once()).parts == {"stuck": 1, "repaired": 1}
    assert await count(database, "workflow_events_outbox") == 1
    assert (await duty.run_once()).count == 0  # there is an event to come
