"""The log while the database is away: JSON lines, one for each duty and attempt, without traces of code."""

import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from assent.cli.logs import log_as_json
from assent.store.database import Database
from tests.faults.proxy import Proxy
from tests.processes.commands import worker

QUICK = {
    "ASSENT_WORKER_BACKOFF_MIN_MS": "20",
    "ASSENT_WORKER_BACKOFF_MAX_MS": "100",
    "ASSENT_WORKER_TIMERS_INTERVAL_MS": "20",
}


async def test_worker_whose_database_is_away_writes_one_json_line_for_each_attempt(
    database: Database,
) -> None:
    async with Proxy.before(database.url) as proxy:  # noqa: SIM117
        async with worker(proxy.url, "--only", "timers", "--only", "timeouts", **QUICK) as process:
            proxy.refuse()
            proxy.cut()
            lines: list[dict[str, Any]] = []
            async with asyncio.timeout(30):
                while not (_said(lines, "asyncpg.pool") and len(_said(lines, "assent.worker.loop")) >= 4):
                    text = await process._process.stderr.readline()  # type: ignore[union-attr]
                    lines.append(json.loads(text))  # every line is one
    assert [line for line in lines if "trace" in line] == []
    failures = _said(lines, "assent.worker.loop")
    assert {line["message"] for line in failures} == {"duty failed"}
    assert all(line["duty"] in ("timers", "timeouts", "nodes") and line["error"] for line in failures)
    assert "Cannot connect to the database" in _said(lines, "asyncpg.pool")[0]["error"]


def _said(lines: list[dict[str, Any]], logger: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["logger"] == logger]


@pytest.fixture
def json_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What a long-running command logs; at the end the log is configured as before."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    loggers = [logging.getLogger(), logging.getLogger("assent")]
    before = [(each.handlers[:], each.level, each.propagate) for each in loggers]
    log_as_json()
    yield written
    logging.captureWarnings(capture=False)
    for each, (handlers, level, propagate) in zip(loggers, before, strict=True):
        each.handlers[:], each.level, each.propagate = handlers, level, propagate


async def test_error_of_a_task_that_is_never_asked_for_is_a_json_line(
    json_log: io.StringIO,
) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("unseen")

    task = asyncio.get_running_loop().create_task(fail())
    await asyncio.wait({task})
    del task
    (line,) = [json.loads(text) for text in json_log.getvalue().splitlines()]
    assert line["logger"] == "asyncio"
    assert "never retrieved" in line["message"]
    assert "ZeroDivisionError: unseen" in line["trace"]


async def test_mistake_keeps_its_trace(json_log: io.StringIO) -> None:
    try:
        raise LookupError("ours")
    except LookupError:
        logging.getLogger("assent.x").exception("a mistake")
    (line,) = [json.loads(text) for text in json_log.getvalue().splitlines()]
    assert "LookupError: ours" in line["trace"]
