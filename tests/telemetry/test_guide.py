"""The page about the hooks says what is so: its variables, its metrics and its queries are those of the code."""

import re

import pytest
from prometheus_client import CollectorRegistry

from assent.operations.health import HealthLimits
from assent.operations.queues import COUNTED_MAX
from assent.store.database import Database
from assent.telemetry.prometheus import PrometheusMetrics
from tests.processes.commands import ROOT
from tests.settings import defaults_of

PAGE = (ROOT / "docs" / "telemetry.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
ROWS = [row.split(" | ") for row in re.findall(r"^\| (`assent_.*) \|$", PAGE, re.MULTILINE)]


def test_every_limit_is_on_the_page_with_its_default() -> None:
    told = dict(re.findall(r"^\| `(ASSENT_HEALTH_\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
    assert told == defaults_of(HealthLimits)
    assert f"{COUNTED_MAX:,}" in PAGE


def test_every_metric_is_on_the_page_with_its_labels() -> None:
    told = {name: re.findall(r"`(\w+)`", row[1]) for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}
    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    found = {_name(metric): list(metric._labelnames) for metric in set(registry._collector_to_names)}  # type: ignore[attr-defined]
    assert told == found


def _name(metric: object) -> str:
    name: str = metric._name  # type: ignore[attr-defined]
    return f"{name}_total" if getattr(metric, "_type", "") == "counter" else name


@pytest.mark.parametrize("sql", QUERIES)
async def test_query_runs(database: Database, sql: str) -> None:
    async with database.transaction(None) as connection:
        await connection.fetch(sql)
