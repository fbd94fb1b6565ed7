"""A request here, a worker there, a receiver elsewhere: one trace, as a collector of traces sees it."""

from assent.runtime import Runtime
from assent.store.database import Database
from tests.processes.commands import run_worker
from tests.receiver import Receiver
from tests.telemetry.application import enlarge, order_that_is_watched
from tests.telemetry.collector import Collected, collecting
from tests.telemetry.seen import Spans, span_id, trace_id

APP = ("--app", "tests.telemetry.application:app")
LOCAL = {"ASSENT_EFFECTS_ALLOW": "127.0.0.0/8"}


def path(spans: list[Collected], last: str) -> list[Collected]:
    """From the first span that the worker knows of down to the one of this name."""
    by_id = {span.span_id: span for span in spans}
    (span,) = [span for span in spans if span.name == last]
    found = [span]
    while span.parent_id in by_id:
        span = by_id[span.parent_id]
        found.insert(0, span)
    return found


async def test_worker_of_another_process_goes_on_in_the_trace_of_the_request(
    runtime: Runtime, database: Database, spans: Spans, receiver: Receiver
) -> None:
    entity = await order_that_is_watched(runtime, receiver.url)
    spans.clear()
    await enlarge(runtime, entity)
    mutate = spans.one("mutate")
    with collecting() as collector:
        code, _, error = await run_worker(
            *(database.url, "--once", "--only", "events", "--only", "effects", *APP),
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            **LOCAL,
        )
        assert (code, error) == (0, "")
        way = path(collector.spans, "effect webhook")
    assert [span.name for span in way] == ["event on_event", "advance", "node webhook_out", "effect webhook"]
    assert {span.trace_id for span in way} == {trace_id(mutate)}
    assert way[0].parent_id == span_id(mutate)
    assert {span.service for span in way} == {"assent"}
    (received,) = receiver.received
    assert received.headers["traceparent"].startswith(f"00-{trace_id(mutate)}-{way[-1].span_id}-")


async def test_worker_that_nobody_told_to_trace_hands_the_trace_on(
    runtime: Runtime, database: Database, spans: Spans, receiver: Receiver
) -> None:
    entity = await order_that_is_watched(runtime, receiver.url)
    spans.clear()
    await enlarge(runtime, entity)
    duties = ("--only", "events", "--only", "effects")
    code, _, error = await run_worker(database.url, "--once", *duties, *APP, **LOCAL)
    assert (code, error) == (0, "")
    (received,) = receiver.received
    mutate = spans.one("mutate")
    assert received.headers["traceparent"].startswith(f"00-{trace_id(mutate)}-{span_id(mutate)}-")


async def test_name_of_the_service_is_the_operators(
    database: Database, receiver: Receiver, runtime: Runtime
) -> None:
    await order_that_is_watched(runtime, receiver.url)
    await runtime.org("acme").events.emit("large:1")
    with collecting() as collector:
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "shop-worker"}
        await run_worker(database.url, "--once", "--only", "events", *APP, **told)
        assert {span.service for span in collector.spans} == {"shop-worker"}


async def test_exporter_that_is_not_known_is_said_plainly(database: Database) -> None:
    code, _, error = await run_worker(database.url, "--once", OTEL_TRACES_EXPORTER="zipkin")
    assert (code, error) == (1, "OTEL_TRACES_EXPORTER: expected one of otlp, console, none, found 'zipkin'\n")
