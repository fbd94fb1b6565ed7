"""One trace from a mutation to what it sends: spans in their order, and a trace that flows without a tracer too."""

import re

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import StatusCode

from assent.app import App
from assent.model.mutation import Refused
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from assent.telemetry import is_sampled, is_traceparent, scope, span
from assent.telemetry.configure import use_tracing
from tests.authored import END, arrows, call, script
from tests.receiver import Receiver, ReceiverReply
from tests.telemetry.application import enlarge, order_that_is_watched, traces_in
from tests.telemetry.seen import Spans, parent_id, span_id, trace_id, traceparent, traces
from tests.workers import open_effects_worker, second_worker
from tests.world import ANN, ORG, create_order, drain, publish_orders, publish_steps, rows, steps_of

CARRIED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = CARRIED[:-2] + "00"
LINE = [script("a"), script("b"), END]


async def test_mutation_event_advance_node_and_effect_are_one_trace(
    app: App, runtime: Runtime, database: Database, spans: Spans, receiver: Receiver
) -> None:
    entity = await order_that_is_watched(runtime, receiver.url)
    spans.clear()
    await enlarge(runtime, entity)
    async with second_worker(open_effects_worker(app, database).place) as place:
        effects_worker = open_effects_worker(app, place.database)
        await drain(effects_worker.runtime)
        await effects_worker.send()
        await effects_worker.close()
    effect = spans.one("effect webhook")
    assert spans.path(effect) == [
        *("mutate", "event on_event", "advance", "node webhook_out", "effect webhook")
    ]
    assert {"node end", "node webhook_out"} <= set(spans.names)
    (received,) = receiver.received
    assert received.headers["traceparent"] == traceparent(effect)


async def test_rows_of_the_way_say_the_trace(
    runtime: Runtime, database: Database, spans: Spans, receiver: Receiver
) -> None:
    entity = await order_that_is_watched(runtime, receiver.url)
    spans.clear()
    await enlarge(runtime, entity)
    mutate = spans.one("mutate")
    async with database.transaction(None) as connection:
        told = await connection.fetchval(
            "SELECT trace_id FROM assent.workflow_events_outbox WHERE org_id = 'acme' AND status = 'pending' LIMIT 1"
        )
        audited = await connection.fetchval(
            "SELECT trace_id FROM assent.audit_log"
            " WHERE org_id = 'acme' AND entity_id = $1 ORDER BY to_version DESC LIMIT 1",
            entity.id,
        )
    assert (told, audited) == (traceparent(mutate), traceparent(mutate))
    await drain(runtime)
    (effect,) = await rows(database, "effects")
    assert effect["trace_id"] == traceparent(spans.one("node webhook_out"))
    (step,) = [
        step for step in await rows(database, "workflow_step_executions") if step["id"] == effect["step_id"]
    ]
    assert step["output_json"]["trace_id"] == trace_id(mutate)


async def test_answer_that_is_awaited_goes_on_in_the_trace_of_what_asked_for_it(
    app: App, runtime: Runtime, database: Database, spans: Spans, receiver: Receiver
) -> None:
    ask = {"id": "ask", "type": "webhook_out", "url": receiver.url, "body": {}, "await": True}
    await publish_steps(
        database, "asking", [ask, END], arrows("ask", "end") + arrows("ask", "end", event="error")
    )
    effects_worker = open_effects_worker(app, database)
    await runtime.org(ORG, ANN).instances.start("asking")
    await effects_worker.work()
    await effects_worker.close()
    answered = spans.one("event on_event")
    assert spans.path(answered) == [
        *("command start", "advance", "node webhook_out", "effect webhook", "event on_event")
    ]
    assert len(traces(spans.all) - {trace_id(batch) for batch in spans.named("batch")}) == 1


async def test_caller_brings_the_trace_and_it_flows_where_nobody_traces(
    app: App, runtime: Runtime, database: Database, receiver: Receiver
) -> None:
    entity = await order_that_is_watched(runtime, receiver.url)
    await enlarge(runtime, entity, trace=CARRIED)
    effects_worker = open_effects_worker(app, database)
    await effects_worker.work()
    await effects_worker.work()
    await effects_worker.close()
    assert (await effects_worker.effect())["trace_id"] == CARRIED
    assert receiver.received[0].headers["traceparent"] == CARRIED
    assert CARRIED in await traces_in(database, "audit_log")


async def test_what_is_done_inside_a_scope_belongs_to_its_trace(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "line", LINE, arrows("a", "b", "end"))
    with scope(trace=CARRIED):
        view = await runtime.org(ORG, ANN).instances.start("line")
        await runtime.org(ORG, ANN).instances.start_many("line", [{}])
        await runtime.org(ORG).events.emit("some key")
    assert await traces_in(database, "workflow_events_outbox") == [CARRIED, CARRIED]
    assert {step["output_json"]["trace_id"] for step in await steps_of(database, view.id)} == {CARRIED[3:35]}


async def test_nothing_is_written_about_traces_where_there_is_none(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "line", LINE, arrows("a", "b", "end"))
    view = await runtime.org(ORG, ANN).instances.start("line")
    await runtime.org(ORG, ANN).instances.start_many("line", [{}])
    await drain(runtime)
    assert await traces_in(database, "workflow_events_outbox") == [None]
    assert not any("trace_id" in step["output_json"] for step in await steps_of(database, view.id))


@pytest.mark.parametrize(
    "text", ["order 4711", "00-nonsense", "ff" + CARRIED[2:], "00-" + "0" * 32 + CARRIED[35:]]
)
async def test_text_that_is_no_traceparent_is_kept_and_a_trace_of_our_own_begins(
    runtime: Runtime, database: Database, spans: Spans, text: str
) -> None:
    await publish_orders(database, None)
    await create_order(runtime)
    spans.clear()
    with scope(trace=text):
        await create_order(runtime)
    await drain(runtime)
    assert parent_id(spans.one("mutate")) is None
    assert spans.path(spans.named("node start")[-1])[0] == "mutate"


async def test_instances_of_one_batch_stay_each_in_its_own_trace(
    runtime: Runtime, database: Database, spans: Spans
) -> None:
    await publish_steps(database, "line", LINE, arrows("a", "b", "end"))
    for name in ("one", "two", "three"):
        with span(name):
            await runtime.org(ORG, ANN).instances.start_many("line", [{}])
    await drain(runtime)
    batch = spans.one("batch")
    assert {spans.path(node)[0] for node in spans.named("node script")} == {"one", "two", "three"}
    assert len(spans.named("node script")) == 6
    assert {f"{link.context.trace_id:032x}" for link in batch.links} == traces(
        spans.one(name) for name in ("one", "two", "three")
    )
    for advance in spans.named("advance"):
        assert span_id(batch) in {f"{link.context.span_id:016x}" for link in advance.links}


async def test_command_drains_the_events_of_others_in_their_traces_and_advances_in_its_own(
    runtime: Runtime, database: Database, spans: Spans
) -> None:
    await publish_orders(database, None)
    with span("creating"):
        entity = await create_order(runtime)
    await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert spans.path(spans.one("event on_create")) == ["creating", "mutate", "event on_create"]
    (advance,) = spans.named("advance")
    assert spans.path(advance) == ["command advance", "advance"]
    linked = {f"{link.context.span_id:016x}" for link in advance.links}
    assert linked == {span_id(spans.one("event on_create"))}


async def test_command_that_is_not_sampled_still_tells_of_the_events_that_are(
    runtime: Runtime, database: Database, spans: Spans
) -> None:
    await publish_orders(database, None)
    entity = await create_order(runtime)
    with scope(trace=NOT_SAMPLED):
        await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert spans.path(spans.one("event on_create")) == ["mutate", "event on_create"]
    assert set(spans.names) == {"mutate", "event on_create"}


async def test_event_that_nobody_traced_begins_a_trace_where_it_is_processed(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "line", LINE, arrows("a", "b", "end"))
    await runtime.org(ORG, ANN).instances.start_many("line", [{}, {}])
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracing(provider)
    await drain(runtime)
    seen = Spans(exporter)
    assert len(traces(seen.named("event on_start"))) == 2
    assert all(seen.path(node)[0] == "event on_start" for node in seen.named("node script"))


async def test_trace_that_is_not_sampled_is_handed_on_and_gets_no_spans(
    app: App, runtime: Runtime, database: Database, spans: Spans, receiver: Receiver
) -> None:
    entity = await order_that_is_watched(runtime, receiver.url)
    await drain(runtime)
    spans.clear()
    await enlarge(runtime, entity, trace=NOT_SAMPLED)
    effects_worker = open_effects_worker(app, database)
    await effects_worker.work()
    await effects_worker.work()
    await effects_worker.close()
    assert set(spans.names) <= {"batch"}
    (effect,) = await rows(database, "effects")
    assert re.fullmatch(f"00-{NOT_SAMPLED[3:35]}-[0-9a-f]{{16}}-00", effect["trace_id"])


async def test_sampler_that_wants_nothing_gets_nothing(runtime: Runtime, database: Database) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracing(provider)
    await publish_orders(database, None)
    await create_order(runtime)
    await drain(runtime)
    assert exporter.get_finished_spans() == ()
    (trace,) = await traces_in(database, "workflow_events_outbox")
    assert trace is not None
    assert is_traceparent(trace)
    assert not is_sampled(trace)


async def test_refusal_is_an_answer_and_no_error(runtime: Runtime, database: Database, spans: Spans) -> None:
    await publish_orders(database, None)
    entity = await create_order(runtime)
    with pytest.raises(Refused):
        await runtime.org(ORG, ANN).entities.transition(entity.id, "approve")
    command = spans.one("command advance")
    assert command.status.status_code is StatusCode.UNSET
    assert (command.attributes or {})["assent.rejection"]


async def test_step_that_raises_fails_its_spans_and_tells_the_type_only(
    runtime: Runtime, database: Database, spans: Spans
) -> None:
    await publish_steps(
        database, "bad", [call("it", "tests.log", input={"fails": "true"}), END], arrows("it", "end")
    )
    await runtime.org(ORG, ANN).instances.start_many("bad", [{}])
    await EventProcessor(runtime.core).process_events()
    node = spans.one("node system")
    assert node.status.status_code is StatusCode.ERROR
    assert spans.path(node) == ["event on_start", "advance", "node system"]
    assert "ann@example.org" not in repr([[each.attributes, each.events, each.status] for each in spans.all])


async def test_batch_that_is_halved_tells_of_the_one_that_fails_and_of_each_other_once(
    runtime: Runtime, database: Database, spans: Spans
) -> None:
    steps = [call("it", "tests.log", input={"fails": "workflow.fails"}), END]
    await publish_steps(database, "bad", steps, arrows("it", "end"))
    await runtime.org(ORG, ANN).instances.start_many("bad", [{"fails": number == 2} for number in range(5)])
    await EventProcessor(runtime.core).process_events()
    ended = [node.status.status_code for node in spans.named("node system")]
    assert sorted(code.name for code in ended) == ["ERROR", "UNSET", "UNSET", "UNSET", "UNSET"]


async def test_attempt_that_is_not_delivered_says_its_code(
    app: App, runtime: Runtime, database: Database, spans: Spans, receiver: Receiver
) -> None:
    entity = await order_that_is_watched(runtime, receiver.url)
    receiver.will(ReceiverReply(503))
    await enlarge(runtime, entity)
    effects_worker = open_effects_worker(app, database)
    await effects_worker.work()
    await effects_worker.work()
    await effects_worker.close()
    told = spans.attributes("effect webhook")
    assert (told["assent.problem"], told["assent.attempt"]) == ("HTTP_503", 1)
    assert spans.one("effect webhook").status.status_code is StatusCode.ERROR


async def test_spans_of_an_operation_are_below_its_node(database: Database, spans: Spans) -> None:
    app = App()

    @app.operation("tests.look")
    async def look(_: object, arguments: object) -> None:
        with span("inside"):
            pass

    await publish_steps(database, "looking", [call("it", "tests.look"), END], arrows("it", "end"))
    await app.runtime(database).org(ORG, ANN).instances.start("looking")
    assert spans.path(spans.one("inside")) == ["command start", "advance", "node system", "inside"]
