"""What is counted after some work is what was done, once, also where something was rolled back and tried again."""

import time
from datetime import timedelta

import pytest

from assent.app import App
from assent.model.actor import SYSTEM
from assent.model.mutation import Refused
from assent.operations.metrics_page import MetricsPage
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import DutyRun, RunResult, WorkerContext
from assent.worker.instrumentation import watch_run
from assent.worker.timers import Timeouts
from tests.authored import END, arrows, call, form, invoice_contract, script
from tests.receiver import Receiver, ReceiverReply
from tests.telemetry.application import enlarge, order_that_is_watched
from tests.telemetry.seen import MetricCounts
from tests.workers import open_effects_worker
from tests.world import (
    ANN,
    BEA,
    FIN,
    LARGE,
    ORG,
    decide,
    drain,
    edit_invoice,
    found_acme_with_invoices,
    publish_steps,
    submit_invoice,
)

LINE = [script("a"), script("b"), END]


async def test_events_and_steps_are_counted_with_how_long_they_took(
    runtime: Runtime, database: Database, clock: MovedClock, counted: MetricCounts
) -> None:
    await publish_steps(database, "line", LINE, arrows("a", "b", "end"))
    await runtime.org(ORG, ANN).instances.start_many("line", [{}, {}, {}])
    clock.advance(timedelta(seconds=7))
    await drain(runtime)
    assert counted("assent_events_total", event_type="on_start", outcome="accepted") == 3
    assert counted("assent_event_latency_seconds_count", event_type="on_start") == 3
    assert counted("assent_event_latency_seconds_sum", event_type="on_start") == pytest.approx(21)
    assert counted("assent_steps_total", kind="script", status="completed") == 6
    assert counted("assent_step_duration_seconds_count", kind="script") == 6
    assert 0 < (counted("assent_step_duration_seconds_sum", kind="script") or 0) < 1


async def test_step_that_rested_says_how_long(
    runtime: Runtime, database: Database, clock: MovedClock, counted: MetricCounts
) -> None:
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end"))
    view = await runtime.org(ORG, ANN).instances.start("asking")
    assert counted("assent_steps_total", kind="form", status="pending") == 1
    clock.advance(timedelta(hours=3))
    await runtime.org(ORG, ANN).instances.advance(view.id, "completed")
    assert counted("assent_step_wait_seconds_sum", kind="form") == 3 * 3600
    assert counted("assent_steps_total", kind="form", status="completed") == 1


@pytest.mark.parametrize("to", [None, "late"])
async def test_workflow_whose_time_is_over_is_counted_and_leaves_a_line(
    to: str | None,
    runtime: Runtime,
    clock: MovedClock,
    counted: MetricCounts,
    caplog: pytest.LogCaptureFixture,
) -> None:
    database, steps = runtime.database, [form("ask"), form("late"), END]
    ways = [
        *arrows("ask", "late", event="later"),
        *arrows("ask", "end", event="done"),
        *arrows("late", "end"),
    ]
    await publish_steps(database, "slow", steps, ways, timeout="72h", **({"on_timeout": to} if to else {}))
    view = await runtime.org(ORG, ANN).instances.start("slow")
    clock.advance(timedelta(hours=72))
    await Timeouts(WorkerContext(database)).run_once()
    await drain(runtime)
    assert counted("assent_timeouts_total", definition="slow") == 1
    (line,) = [one.__dict__ for one in caplog.records if one.message == "the time of a workflow is over"]
    assert (line["org_id"], line["instance_id"], line["to"]) == (ORG, str(view.id), to)
    assert (line["definition"], line["definition_version"]) == ("slow", 1)


async def test_failed_attempts_are_retries_and_the_last_one_a_dead_letter(
    runtime: Runtime, database: Database, clock: MovedClock, counted: MetricCounts
) -> None:
    steps = [call("it", "tests.log", input={"fails": "workflow.fails"}), END]
    await publish_steps(database, "bad", steps, arrows("it", "end"))
    await runtime.org(ORG, ANN).instances.start_many("bad", [{"fails": True}, {"fails": False}])
    for _ in range(5):
        await drain(runtime)
        clock.advance(timedelta(hours=1))
    assert counted("assent_events_total", event_type="on_start", outcome="accepted") == 1
    assert counted("assent_retries_total", queue="events") == 4
    assert counted("assent_dead_total", queue="events") == 1
    assert counted("assent_events_total", event_type="on_start", outcome="dead") == 1
    assert counted("assent_steps_total", kind="system", status="completed") == 1


async def test_command_that_is_refused_counts_no_step(
    runtime: Runtime, database: Database, counted: MetricCounts
) -> None:
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end"))
    view = await runtime.org(ORG, ANN).instances.start("asking")
    with pytest.raises(Refused):
        await runtime.org(ORG, ANN).instances.advance(view.id, "sideways")
    assert counted("assent_steps_total", kind="form", status="completed") is None


async def test_effects_are_counted_by_what_became_of_them(
    app: App, runtime: Runtime, clock: MovedClock, counted: MetricCounts, receiver: Receiver
) -> None:
    database = runtime.database
    entity = await order_that_is_watched(runtime, receiver.url)
    receiver.will(ReceiverReply(503))
    await enlarge(runtime, entity)
    await drain(runtime)
    effects_worker = open_effects_worker(app, database)
    await effects_worker.send()
    clock.advance(timedelta(minutes=10))
    await effects_worker.send()
    await effects_worker.close()
    assert counted("assent_effects_total", effect_type="webhook", outcome="retrying") == 1
    assert counted("assent_effects_total", effect_type="webhook", outcome="done") == 1
    assert counted("assent_retries_total", queue="effects") == 1
    assert counted("assent_effect_send_seconds_count", effect_type="webhook") == 2
    assert counted("assent_effect_latency_seconds_sum", effect_type="webhook") == 600


async def test_duties_are_counted_with_their_errors(counted: MetricCounts) -> None:
    watch_run(DutyRun("timers", 0.5, RunResult(3)))
    watch_run(DutyRun("timers", 0.5, RunResult(), ValueError("no")))
    watch_run(DutyRun("released", 0.1, RunResult(3, parts={"events": 2, "effects": 1})))
    assert counted("assent_duty_runs_total", duty="timers", outcome="done") == 1
    assert counted("assent_duty_runs_total", duty="timers", outcome="error") == 1
    assert counted("assent_duty_run_seconds_sum", duty="timers") == 1
    assert counted("assent_duty_last_run_timestamp_seconds", duty="timers") == pytest.approx(
        time.time(), abs=60
    )
    assert counted("assent_duty_done_total", duty="timers", part="all") == 3
    assert counted("assent_duty_done_total", duty="released", part="events") == 2


async def test_approvals_are_counted_when_asked_and_when_they_end(
    database: Database, counted: MetricCounts
) -> None:
    await found_acme_with_invoices(database)
    runtime = App([invoice_contract()]).runtime(database)
    view = await submit_invoice(runtime, LARGE)
    assert counted("assent_approvals_total", outcome="asked") == 2
    view = await decide(runtime, view, "finance", FIN)
    await edit_invoice(runtime, view.entity_id, grand_total=2_100_000)
    await drain(runtime)
    assert view.entity_id is not None
    again = await runtime.org(ORG, ANN).entities.transition(view.entity_id, "submit")
    again = await decide(runtime, again, "finance", FIN)
    await decide(runtime, again, "budget", BEA)
    assert counted("assent_approvals_total", outcome="asked") == 4
    assert counted("assent_approvals_total", outcome="approved") == 3
    assert counted("assent_approvals_total", outcome="rejected") is None


async def test_paused_instances_are_counted_by_code_and_definition_until_they_go_on(
    runtime: Runtime, database: Database, counted: MetricCounts
) -> None:
    seconds = [100.0]
    page = MetricsPage(database, lambda: seconds[0])
    await publish_steps(database, "asking", [form("ask"), END], arrows("ask", "end"))
    await publish_steps(database, "failing", [call("a", "none.there"), END], arrows("a", "end"))
    people = runtime.org(ORG, SYSTEM)
    view = await runtime.org(ORG, ANN).instances.start("asking")
    await people.instances.start_many("failing", [{}, {}])
    await people.instances.pause(view.id)
    await drain(runtime)
    await page.render()
    assert counted("assent_incidents", code="PAUSED", definition="asking") == 1
    assert counted("assent_incidents", code="UNKNOWN_OPERATION", definition="failing") == 2
    await people.instances.resume(view.id)
    seconds[0] += 10
    await page.render()
    assert counted("assent_incidents", code="PAUSED", definition="asking") is None
    assert counted("assent_incidents", code="UNKNOWN_OPERATION", definition="failing") == 2


async def test_page_has_the_queues_and_asks_for_them_now_and_then(
    runtime: Runtime, database: Database, clock: MovedClock, counted: MetricCounts
) -> None:
    seconds = [100.0]
    page = MetricsPage(database, lambda: seconds[0])
    await publish_steps(database, "line", LINE, arrows("a", "b", "end"))
    await runtime.org(ORG, ANN).instances.start_many("line", [{}, {}])
    clock.advance(timedelta(seconds=40))
    text, kind = await page.render()
    assert kind.startswith("text/plain")
    assert b'assent_pending{queue="events"} 2.0' in text
    assert b'assent_oldest_pending_seconds{queue="events"} 40.0' in text
    assert b"assent_database_up 1.0" in text
    await drain(runtime)
    assert b'assent_pending{queue="events"} 2.0' in (await page.render())[0]
    seconds[0] += 5
    assert b'assent_pending{queue="events"} 0.0' in (await page.render())[0]


@pytest.mark.without_twin("it takes a table away")
async def test_page_answers_while_the_database_does_not(
    runtime: Runtime, database: Database, counted: MetricCounts
) -> None:
    seconds = [100.0]
    page = MetricsPage(database, lambda: seconds[0])
    await page.render()
    async with database.transaction(None) as connection:
        await connection.execute("ALTER TABLE assent.workflow_seats RENAME TO gone")
    seconds[0] += 5
    assert b"assent_database_up 0.0" in (await page.render())[0]
