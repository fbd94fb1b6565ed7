"""Nanoseconds per evaluation: the conditions of the templates, of the guide, and with declared types."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from time import process_time_ns
from typing import Any

import yaml

from assent.language import OPEN, Program, Scope, compile_expression, parse, scope_of
from assent.model.contract import contract_from
from bench.report import BenchReport, Measurement

RUNS = 7
EVALUATIONS = 20_000
NANOSECONDS_MAX = 2000
"""What an evaluation may take on average over the templates' conditions, evidence included."""

INVOICE = contract_from(
    {
        "contract": "invoice",
        "version": 1,
        "fields": {"rate": {"type": "decimal"}, "due": {"type": "date"}, "posted_at": {"type": "datetime"}},
        "lifecycle": {"initial": "draft", "states": {"draft": {"edit": "editable"}}},
    }
)
GUIDE = (
    "entity.grand_total > 10000 && actor.roles contains 'finance_manager'",
    "entity.customer.credit_available >= entity.grand_total",
    "entity.currency in ['EUR', 'USD']",
    "mimeType startsWith 'image/'",
    "mimeType contains 'zip' AND size > 1024",
    "filename endsWith '.pdf' OR mimeType = 'application/pdf'",
    "entity.state == 'submitted' && !(entity.vendor_id in org.blocked_vendors) && entity.lines[0].amount > 5",
)
DECLARED = ("entity.rate > 1.5", "entity.posted_at < now", "entity.due <= '2026-12-31'")

VARIABLES: Mapping[str, Any] = {
    "entity": {
        "grand_total": 40_000,
        "amount": 4_000,
        "vendor_id": "v-9",
        "cost_center": "R&D",
        "currency": "EUR",
        "reason": "price_error",
        "receipt_id": "r-1",
        "state": "submitted",
        "customer": {"credit_available": 90_000},
        "lines": [{"amount": 10}],
        "rate": "10.50",
        "due": "2026-03-01",
        "posted_at": "2026-03-01T09:00:00+00:00",
    },
    "actor": {"id": "ann", "roles": ["clerk", "finance_manager"]},
    "org": {
        "trusted_vendors": ["v-1", "v-2", "v-9"],
        "blocked_vendors": ["v-66"],
        "budget_owners": {"R&D": "bea"},
    },
    "workflow": {"amount": 60_000, "anomalies": 0, "risk": "low", "valid": True, "credit_ok": True},
    "now": datetime(2026, 3, 2, tzinfo=UTC),
    "mimeType": "application/zip",
    "filename": "a.pdf",
    "size": 2048,
}


def measure() -> BenchReport:
    templates = [_measure(text, OPEN, "templates") for text in template_conditions()]
    guide = [_measure(text, OPEN, "guide") for text in GUIDE]
    declared = [_measure(text, scope_of(INVOICE), "declared types") for text in DECLARED]
    average = statistics.mean(measurement.median for measurement in templates)
    totals = {
        "average over the templates' conditions, ns": average,
        "at most, ns": NANOSECONDS_MAX,
        "within": average < NANOSECONDS_MAX,
        "average over everything here, ns": statistics.mean(m.median for m in templates + guide + declared),
    }
    title = "Expressions: evaluation with its evidence"
    return BenchReport("expressions", title, [*templates, *guide, *declared], totals)


def template_conditions() -> list[str]:
    """Every condition, guard and rule of the shipped templates, each once."""
    found: set[str] = set()
    for path in sorted(Path(str(files("assent.templates"))).glob("*/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            found.update(_conditions(document))
    return sorted(found)


def _conditions(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (value[key] for key in ("when", "condition", "rule") if isinstance(value.get(key), str))
        for item in value.values():
            yield from _conditions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _conditions(item)


def _measure(text: str, scope: Scope, group: str) -> Measurement:
    program = _program(text, scope)
    quiet = statistics.median(_nanoseconds(program.value) for _ in range(RUNS))
    runs = [_nanoseconds(program) for _ in range(RUNS)]
    return Measurement(text, "ns", runs, {"value only": quiet, "from": group})


def _program(text: str, scope: Scope) -> Program:
    expression, problems = parse(text)
    assert expression is not None, problems
    return compile_expression(expression, scope)


def _nanoseconds(run: Callable[[Mapping[str, Any]], object]) -> float:
    # The processor's time, not the wall's: an evaluation never waits, and a busy machine only adds noise.
    started = process_time_ns()
    for _ in range(EVALUATIONS):
        run(VARIABLES)
    return (process_time_ns() - started) / EVALUATIONS
