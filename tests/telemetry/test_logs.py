"""Log lines say where they were written: org, instance and trace, as far as that is known."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from assent.app import App
from assent.cli.logs import JsonLines, log_above
from assent.runtime import Runtime
from assent.store.database import Database
from assent.telemetry import log_fields, scope, span
from tests.authored import END, arrows, call
from tests.telemetry.seen import Spans, span_id, trace_id
from tests.workers import open_effects_worker
from tests.world import ANN, ORG, drain, publish_steps

CARRIED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INSTANCE = UUID("019cadc6-9a80-71b6-9b1a-6d983767c82f")


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What is logged, as JSON lines."""
    found: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(self.format(record)))

    keep = Keep()
    keep.setFormatter(JsonLines())
    logger = logging.getLogger("assent")
    logger.addHandler(keep)
    yield found
    logger.removeHandler(keep)


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert log_fields() == {}


def test_scopes_nest_and_end() -> None:
    with scope(org_id="acme", trace=CARRIED):
        with scope(instance_id=INSTANCE):
            inner = log_fields()
        outer = log_fields()
    assert inner == outer | {"instance_id": str(INSTANCE)}
    assert outer == {"org_id": "acme", "trace_id": CARRIED[3:35], "span_id": CARRIED[36:52]}
    assert log_fields() == {}


def test_trace_that_is_no_traceparent_is_said_as_it_is() -> None:
    with scope(trace="order 4711"):
        assert log_fields() == {"trace_id": "order 4711"}


async def test_tasks_beside_each_other_know_their_own_scope_only() -> None:
    met = asyncio.Barrier(2)

    async def work(org: str) -> dict[str, str]:
        with scope(org_id=org):
            await met.wait()
            return log_fields()

    both = await asyncio.gather(work("a"), work("b"))
    assert list(both) == [{"org_id": "a"}, {"org_id": "b"}]


async def test_operation_of_a_command_logs_its_org_instance_and_trace(
    runtime: Runtime, database: Database, lines: list[dict[str, Any]]
) -> None:
    await publish_steps(database, "logging", [call("it", "tests.log"), END], arrows("it", "end"))
    with scope(trace=CARRIED):
        view = await runtime.org(ORG, ANN).instances.start("logging")
    (line,) = [line for line in lines if line["message"] == "an operation runs"]
    assert (line["org_id"], line["instance_id"], line["trace_id"]) == (ORG, str(view.id), CARRIED[3:35])


async def test_operations_of_one_batch_log_each_its_own(
    runtime: Runtime, database: Database, spans: Spans, lines: list[dict[str, Any]]
) -> None:
    await publish_steps(database, "logging", [call("it", "tests.log"), END], arrows("it", "end"))
    ids = await runtime.org(ORG, ANN).instances.start_many("logging", [{}, {}, {}])
    await drain(runtime)
    assert {line["instance_id"] for line in lines} == {str(each) for each in ids}
    nodes = {(trace_id(node), span_id(node)) for node in spans.named("node system")}
    assert {(line["trace_id"], line["span_id"]) for line in lines} == nodes


async def test_adapter_logs_the_org_instance_and_trace_of_what_it_sends(
    database: Database, lines: list[dict[str, Any]]
) -> None:
    app = App()
    app.adapter("sms", lambda message: logging.getLogger("assent.sms").warning("sending"))
    tell = {"id": "tell", "type": "notification", "channel": "sms", "to": "1", "text": "x"}
    await publish_steps(database, "telling", [tell, END], arrows("tell", "end"))
    effects_worker = open_effects_worker(app, database)
    with scope(trace=CARRIED):
        view = await effects_worker.start("telling")
    assert await effects_worker.send() == {"done": 1}
    await effects_worker.close()
    (line,) = lines
    assert (line["org_id"], line["instance_id"], line["trace_id"]) == (ORG, str(view.id), CARRIED[3:35])


def test_what_is_given_with_a_line_goes_before_what_is_known(lines: list[dict[str, Any]]) -> None:
    with scope(org_id="acme"), span("nothing"):
        logging.getLogger("assent.x").warning("about another", extra={"org_id": "other"})
    assert lines[0]["org_id"] == "other"


def test_person_at_a_terminal_sees_it_too() -> None:
    out = io.StringIO()
    logger = logging.getLogger("assent")
    before = logger.handlers[:], logger.level, logger.propagate
    try:
        log_above(Console(file=out, width=200))
        with scope(org_id="acme"):
            logging.getLogger("assent.x").warning("look")
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
    assert "look  org_id=acme" in out.getvalue()
