"""Evaluation: what conditions yield, what they record, and that nothing makes them raise."""

from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from assent.language import OPEN, Program, Scope, compile_expression, parse
from assent.language.program import EVIDENCE_CHARACTERS_MAX, EVIDENCE_ITEMS_MAX
from tests.unit.language.invoices import SCOPE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

VARIABLES: dict[str, Any] = {
    "entity": {
        "number": "R-7",
        "grand_total": 40_000,
        "vendor_id": "v-9",
        "cost_center": "R&D",
        "rate": "10.50",
        "minimum_rate": "9.5",
        "rates": ["1.50", "2"],
        "paid": False,
        "due": "2026-02-28",
        "posted_at": "2026-03-01T13:00:00+02:00",
        "sent_at": "2026-03-01T11:00:00Z",
        "tags": ["urgent", "7", 8],
        "lines": [{"sku": "a", "amount": 5}],
        "address": {"city": "Bonn"},
        "nothing": None,
    },
    "actor": {"id": "ann", "roles": frozenset({"clerk", "finance_manager"})},
    "org": {"trusted_vendors": ["v-1", "v-9"], "budget_owners": {"R&D": "bea", "7": "cy"}},
    "workflow": {"ratio": 0.1, "amount": "12.5", "at": "2026-03-01T12:00:00Z", "day": date(2026, 3, 1)},
    "now": NOW,
    "mimeType": "application/zip",
    "size": 2048,
}


def program_of(text: str, scope: Scope = OPEN) -> Program:
    expression, problems = parse(text)
    assert expression is not None, problems
    return compile_expression(expression, scope)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("entity.grand_total <= 50000 && entity.vendor_id in org.trusted_vendors", True),
        ("entity.grand_total > 1000000", False),
        ("org.budget_owners[entity.cost_center]", "bea"),
        ("entity.grand_total > 10000 && actor.roles contains 'finance_manager'", True),
        ("mimeType startsWith 'image/'", False),
        ("mimeType contains 'zip' AND size > 1024", True),
        ("mimeType endsWith '/zip' OR mimeType = 'application/pdf'", True),
        ("entity.grand_total == 40000 && entity.grand_total != 40001", True),
        ("entity.grand_total >= 40000 && entity.grand_total < 40000.5", True),
        ("40000 == entity.grand_total && 39999 < entity.grand_total", True),
        ("entity.number < 'S' && entity.number >= 'R'", True),
        ("entity.cost_center in ['R&D', 'HR']", True),
        ("entity.cost_center in ['HR']", False),
        ("entity.cost_center in org.budget_owners", True),
        ("org.budget_owners contains 'HR'", False),
        ("8 in entity.tags", True),
        ("'clerk' in actor.roles", True),
        ("entity.tags contains 'urg'", False),
        ("entity.number contains '-'", True),
        ("'-' in entity.number", False),
        ("entity.lines[0].sku", "a"),
        ("entity.lines[0].amount > 4", True),
        ("entity.lines[1].amount", None),
        ("entity.lines[-1]", None),
        ("entity.lines['sku']", None),
        ("org.budget_owners[7]", "cy"),
        ("entity.address == entity.address && entity.lines != entity.tags", True),
        ("entity.lines == [entity.lines[0]]", True),
        ("[1, 'a', true] == [1, 'a', 1]", False),
        ("!entity.paid", True),
        ("entity.paid == false", True),
        ("true", True),
        ("now", NOW),
    ],
)
def test_conditions_yield_what_they_say(text: str, result: Any) -> None:
    assert program_of(text)(VARIABLES).result == result
    assert program_of(text).value(VARIABLES) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("entity.absent == null", True),
        ("entity.nothing == null", True),
        ("absent.at.all == null", True),
        ("entity.number.deeper == null", True),
        ("entity.absent == entity.nothing", True),
        ("entity.absent == ''", False),
        ("entity.absent == 0", False),
        ("entity.absent == false", False),
        ("entity.absent != 0", True),
        ("entity.absent != null", False),
        ("entity.absent > 0", False),
        ("entity.absent <= 0", False),
        ("entity.absent < entity.nothing", False),
        ("entity.absent >= entity.absent", False),
        ("entity.absent in ['a']", False),
        ("entity.absent in [null]", False),
        ("'a' in entity.absent", False),
        ("entity.absent contains 'a'", False),
        ("entity.tags contains entity.absent", False),
        ("entity.absent startsWith ''", False),
        ("entity.number endsWith entity.absent", False),
        ("entity.absent", None),
        ("org.budget_owners[entity.absent]", None),
        ("entity.absent[0]", None),
        ("!entity.absent", True),
        ("entity.absent || true", True),
        ("entity.absent && true", False),
    ],
)
def test_missing_values_are_defined(text: str, result: Any) -> None:
    assert program_of(text)(VARIABLES).result is result
    assert program_of(text, SCOPE)(VARIABLES).result is result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("entity.number == 7", False),
        ("entity.number > 7", False),
        ("entity.number != 7", True),
        ("entity.paid == 0", False),
        ("entity.paid < 1", False),
        ("entity.grand_total == true", False),
        ("1 in [true]", False),
        ("true in [1]", False),
        ("true in [true]", True),
        ("entity.tags > 5", False),
        ("entity.grand_total contains 4", False),
        ("5 in 5", False),
        ("entity.grand_total startsWith '4'", False),
        ("!entity.number", True),
        ("entity.number && true", False),
        ("entity.number || entity.grand_total", False),
        ("org.budget_owners[entity.tags]", None),
        ("org.budget_owners[true]", None),
        ("entity.tags[true]", None),
        ("entity.address in [entity.address]", True),
        ("entity.tags in ['a']", False),
        ("entity.due > 5", False),
        ("now > 5", False),
        ("now == entity.number", False),
    ],
)
def test_unlike_values_are_unequal_and_in_no_order(text: str, result: Any) -> None:
    assert program_of(text)(VARIABLES).result is result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("workflow.amount > 12", True),
        ("workflow.amount == 12.50", True),
        ("12.5 in [workflow.amount]", True),
        ("'7' in [7] && 7 in entity.tags", True),
        ("workflow.ratio == 0.1", True),
        ("workflow.ratio < 0.10001 && workflow.ratio > 0.09999", True),
        ("workflow.at == now", True),
        ("workflow.at <= now && workflow.at > '2026'", True),
        ("workflow.day < now && workflow.day == '2026-03-01'", True),
        ("now > '2026-02-28' && now < '2026-03-01T12:00:01Z'", True),
        ("now == '2026-03-01T14:00:00+02:00'", True),
    ],
)
def test_text_stands_for_decimals_and_times_where_it_meets_them(text: str, result: bool) -> None:
    assert program_of(text)(VARIABLES).result is result


@pytest.mark.parametrize(
    ("text", "as_declared", "as_text"),
    [
        ("entity.rate > entity.minimum_rate", True, False),
        ("entity.rate == '10.5'", True, False),
        ("entity.rate in ['10.5']", True, False),
        ("entity.rates contains '1.5'", True, False),
        ("'2.0' in entity.rates", True, False),
        ("entity.posted_at == entity.sent_at", True, False),
        ("entity.posted_at == '2026-03-01T11:00:00Z'", True, False),
        ("entity.posted_at in ['2026-03-01T11:00:00Z']", True, False),
        ("entity.due < entity.sent_at", True, True),
    ],
)
def test_declared_decimals_and_times_are_compared_as_such(
    text: str, as_declared: bool, as_text: bool
) -> None:
    assert program_of(text, SCOPE)(VARIABLES).result is as_declared
    assert program_of(text)(VARIABLES).result is as_text


def test_a_declared_decimal_is_yielded_as_it_is_kept() -> None:
    assert program_of("entity.rate", SCOPE)(VARIABLES).result == "10.50"


def test_a_run_records_what_it_read_and_nothing_else() -> None:
    run = program_of("entity.grand_total > 50000 && entity.vendor_id in org.trusted_vendors")(VARIABLES)
    assert run.to_json() == {
        "expression": "entity.grand_total > 50000 && entity.vendor_id in org.trusted_vendors",
        "variables": {"entity.grand_total": 40_000},
        "result": False,
    }


def test_an_index_records_its_key_and_the_entry_but_not_the_whole_collection() -> None:
    run = program_of("org.budget_owners[entity.cost_center] == 'bea'")(VARIABLES)
    assert run.variables == {"entity.cost_center": "R&D", "org.budget_owners[entity.cost_center]": "bea"}


def test_a_missing_variable_is_recorded_as_null() -> None:
    assert program_of("entity.absent > 1")(VARIABLES).variables == {"entity.absent": None}


def test_the_record_holds_values_as_they_were_before_they_were_read_as_decimals() -> None:
    assert program_of("entity.rate > 2", SCOPE)(VARIABLES).variables == {"entity.rate": "10.50"}


def test_evidence_is_json_and_bounded() -> None:
    variables = {"now": NOW, "a": list(range(1000)), "b": {str(n): n for n in range(1000)}, "c": "x" * 5000}
    run = program_of("[now, a, b, c, d] == 1")({**variables, "d": Decimal("1.5")})
    kept = run.to_json()["variables"]
    assert kept["now"] == "2026-03-01T12:00:00+00:00"
    assert kept["a"] == [*range(EVIDENCE_ITEMS_MAX), "… 950 more"]
    assert len(kept["b"]) == EVIDENCE_ITEMS_MAX + 1
    assert kept["b"]["…"] == "950 more"
    assert kept["c"] == "x" * EVIDENCE_CHARACTERS_MAX + "… 4000 more"
    assert kept["d"] == "1.5"


def test_evidence_of_a_set_is_in_order() -> None:
    run = program_of("actor.roles contains 'x'")(VARIABLES)
    assert run.to_json()["variables"] == {"actor.roles": ["clerk", "finance_manager"]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, 10**400])
def test_numbers_that_json_would_not_keep_are_evidence_as_text(value: Any) -> None:
    assert program_of("a")({"a": value}).to_json()["result"] == str(value)


def test_only_true_makes_a_condition_hold() -> None:
    assert program_of("entity.paid == false").holds(VARIABLES)
    assert program_of("entity.paid == false")(VARIABLES).holds
    for text in ("entity.number", "entity.grand_total", "entity.absent", "entity.paid"):
        assert not program_of(text).holds(VARIABLES)
        assert not program_of(text)(VARIABLES).holds


class Opaque:
    """A value that nobody expected: it has no order, and no hash."""

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "value",
    [
        Opaque(),
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        10**400,
        "1" * 5000,
        "2026-99-99",
        "2026-01-01T99:99:99",
        datetime(2026, 1, 1),  # noqa: DTZ001 - without a zone on purpose
        datetime.min,  # noqa: DTZ901
        date.max,
        UUID(int=7),
        b"bytes",
        {1: 2},
        {"a": Opaque()},
        [Opaque()],
        range(3),
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("operator", ["==", "!=", ">", "<=", "in", "contains", "startsWith", "endsWith"])
def test_wrongly_typed_values_never_raise(value: Any, operator: str) -> None:
    variables = {"a": value, "entity": {"rate": value, "due": value, "tags": value}, "now": NOW}
    for other in (
        "a",
        "1",
        "1.5",
        "'x'",
        "'2026-01-01'",
        "now",
        "[1, 'x', 2.5]",
        "null",
        "true",
        "entity.rate",
    ):
        for text in (f"a {operator} {other}", f"{other} {operator} a", f"entity.due {operator} {other}"):
            for scope in (OPEN, SCOPE.with_roots(a=SCOPE.roots["org"])):
                assert program_of(text, scope)(variables).result in (True, False)
    assert program_of(f"a[a] {operator} entity.tags[a]")(variables).result in (True, False)
    program_of("a[a]")(variables).to_json()


@pytest.mark.parametrize(
    "variables", [{}, {"entity": None}, {"entity": 5}, {"entity": "x"}, {"entity": ["x"]}]
)
def test_wrongly_shaped_variables_are_missing(variables: dict[str, Any]) -> None:
    for text in ("entity.number", "entity.address.city", "entity.lines[0].sku"):
        assert program_of(text)(variables).result is None


def test_any_mapping_will_do_for_an_object() -> None:
    entity = MappingProxyType({"number": "R-7", "address": MappingProxyType({"city": "Bonn"})})
    variables = MappingProxyType({"entity": entity})
    assert program_of("entity.number == 'R-7' && entity.address.city == 'Bonn'")(variables).holds
    assert program_of("'number' in entity && entity == entity")(variables).holds


def test_an_id_equals_its_text() -> None:
    variables = {"entity": {"id": UUID(int=7)}, "actor": {"id": str(UUID(int=7))}, "ids": [str(UUID(int=7))]}
    assert program_of("entity.id == actor.id && entity.id in ids")(variables).holds
