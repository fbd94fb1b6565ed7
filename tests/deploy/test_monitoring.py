"""Dashboard and alert rules use metrics and labels that the running product shows, and link to headings that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from assent.operations.health import HealthLimits
from assent.store.database import Database
from assent.store.settings import Settings
from assent.telemetry.configure import stop_looking, use_metrics
from assent.telemetry.prometheus import PrometheusMetrics
from assent.worker.probes import Probes, ProbeSettings
from assent.worker.supervisor import DUTIES
from tests.unit.test_documentation import anchors

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
RULES = [
    rule
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {
    **{
        f"panel {panel['id']}{target['refId']}": target["expr"]
        for panel in PANELS
        for target in panel["targets"]
    },
    **{rule["alert"]: rule["expr"] for rule in RULES},
}
GIVEN_BY_PROMETHEUS = {"instance", "job", "le"}
SUFFIXES = ("_bucket", "_sum", "_count")


@pytest.fixture
def metrics() -> Iterator[CollectorRegistry]:
    """Metrics that are turned on for a test, in a registry with those of the process."""
    use_metrics()
    yield CollectorRegistry()
    stop_looking()


def labels_of() -> dict[str, set[str]]:
    """Return the labels of each metric that the product declares."""
    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    found = {}
    for metric in set(registry._collector_to_names):
        name, labels = metric._name, set(metric._labelnames)  # type: ignore[attr-defined]
        is_counter = metric._type == "counter"  # type: ignore[attr-defined]
        found[f"{name}_total" if is_counter else name] = labels
    return found


def parts(expression: Any) -> Iterator[Any]:
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        if (inner := getattr(expression, name, None)) is not None:
            yield from parts(inner)
    for argument in getattr(expression, "args", None) or ():
        yield from parts(argument)


def parsed(query: str) -> Any:
    """Return the syntax tree; raise where it is no PromQL. Grafana fills in the interval."""
    return promql_parser.parse(query.replace("$__rate_interval", "5m"))


def selectors(query: str) -> list[Any]:
    return [part for part in parts(parsed(query)) if isinstance(part, promql_parser.VectorSelector)]


def name_of(selector: Any) -> str:
    """Return the metric of a selector, without the suffix of a histogram's series."""
    name: str = selector.name
    for suffix in SUFFIXES:
        if name.removesuffix(suffix) in labels_of():
            return name.removesuffix(suffix)
    return name


def test_a_query_that_is_no_promql_is_noticed() -> None:
    with pytest.raises(ValueError, match=r".+"):
        parsed("sum by (queue (assent_pending)")
    assert [name_of(each) for each in selectors("rate(assent_event_latency_seconds_bucket[5m])")] == [
        "assent_event_latency_seconds"
    ]


async def test_every_metric_that_is_named_is_on_the_page_of_the_running_product(
    database: Database, metrics: CollectorRegistry
) -> None:
    async with Probes(database).serving(ProbeSettings(port=0)) as port, httpx.AsyncClient() as client:
        page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    shown = set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))
    assert len(list(text_string_to_metric_families(page))) > 20
    named = {name_of(selector) for query in QUERIES.values() for selector in selectors(query)}
    assert sorted(named - shown) == []


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_uses_labels_that_its_metrics_have(query: str) -> None:
    declared = labels_of()
    every: set[str] = set(GIVEN_BY_PROMETHEUS)
    for selector in selectors(query):
        labels = declared.get(name_of(selector), set()) | GIVEN_BY_PROMETHEUS
        every |= labels
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels
    for part in parts(parsed(query)):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            assert set(part.modifier.labels) <= every


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["id"]))
def test_a_panel_shows_labels_that_its_query_keeps(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        kept = {
            label
            for part in parts(parsed(target["expr"]))
            if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
            for label in part.modifier.labels
        }
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept - {"le"}


def values_of(label: str) -> set[str]:
    """Return the values of a label that queries compare with."""
    return {
        value
        for query in QUERIES.values()
        for selector in selectors(query)
        for matcher in selector.matchers.matchers
        if matcher.name == label
        for value in matcher.value.split("|")
    }


async def test_queries_compare_with_queues_and_duties_that_exist(
    database: Database, metrics: CollectorRegistry
) -> None:
    async with Probes(database).serving(ProbeSettings(port=0)) as port, httpx.AsyncClient() as client:
        page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    queues = set(re.findall(r'^assent_pending\{queue="(\w+)"\}', page, re.MULTILINE))
    assert values_of("queue") <= queues
    assert values_of("duty") <= {duty.name for duty in DUTIES}
    assert values_of("state") <= set(
        re.findall(r'^assent_pool_connections\{state="(\w+)"\}', page, re.MULTILINE)
    )
    assert values_of("kind") <= {"sign_in", "command", "rate"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_links_a_heading_that_exists(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page).is_file()
    assert anchor in anchors(ROOT / page)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_shows_labels_that_its_query_keeps(rule: dict[str, Any]) -> None:
    kept = {
        label
        for part in parts(parsed(rule["expr"]))
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
        for label in part.modifier.labels
    }
    texts = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= kept | {"instance"}


def limit_of(alert: str) -> float:
    (rule,) = [rule for rule in RULES if rule["alert"] == alert]
    return float(rule["expr"].split()[-1])


def test_the_limits_of_the_alerts_are_those_of_the_settings() -> None:
    limits = HealthLimits.defaults()
    assert limit_of("AssentWorkWaits") * 1000 == limits.pending_age_max_ms
    assert limit_of("AssentEventsSlow") * 1000 == limits.latency_p95_max_ms
    assert limit_of("AssentPoolExhausted") == Settings.defaults().pool_connections_max


def test_the_dashboard_covers_what_an_operator_asks() -> None:
    named = {name_of(selector) for query in QUERIES.values() for selector in selectors(query)}
    assert named >= set(labels_of()) - {
        "assent_effect_send_seconds",
        "assent_task_latency_seconds",
        "assent_tasks_total",
        "assent_step_duration_seconds",
        "assent_duty_done_total",
    }


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
