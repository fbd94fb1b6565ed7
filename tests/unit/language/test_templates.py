"""Templates: expressions within text."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from assent.language import check_template, compile_template, parse_template, render_template
from assent.model.problems import Position
from tests.unit.language.invoices import SCOPE

VARIABLES = {
    "workflow": {"order_id": "o-1", "count": 3, "price": Decimal("1.50"), "ok": True, "items": [1, "a"]},
    "entity": {"shipment_id": "s-7", "due": date(2026, 1, 31)},
    "org": {"names": {"}": "brace", "a'b": "quote"}},
    "now": datetime(2026, 1, 31, 9, tzinfo=UTC),
}


def filled(text: str) -> Any:
    template, problems = parse_template(text)
    assert template is not None, problems
    program = compile_template(template)
    assert program.value(VARIABLES) == program(VARIABLES).result
    return program(VARIABLES).result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Order {workflow.order_id} is confirmed.", "Order o-1 is confirmed."),
        ("delivery:pod:{entity.shipment_id}", "delivery:pod:s-7"),
        ("no expressions", "no expressions"),
        ("", ""),
        ("{workflow.count} of {workflow.price}", "3 of 1.50"),
        ("{workflow.ok}/{workflow.count > 5}", "true/false"),
        ("due {entity.due}, now {now}", "due 2026-01-31, now 2026-01-31T09:00:00+00:00"),
        ("Dear {workflow.name},", "Dear ,"),
        ("{workflow.items}!", '[1,"a"]!'),
        ("{{literal}} {{{workflow.count}}}", "{literal} {3}"),
        ("{org.names['}']} {org.names[\"a'b\"]}", "brace quote"),
        ("{ workflow.count }!", "3!"),
    ],
)
def test_expressions_are_filled_in(text: str, result: str) -> None:
    assert filled(text) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{workflow.items}", [1, "a"]),
        ("{workflow.count}", 3),
        ("{workflow.absent}", None),
        ("{workflow.count > 2}", True),
        ("{'x'}", "x"),
    ],
)
def test_a_lone_expression_yields_its_value_unchanged(text: str, result: Any) -> None:
    assert filled(text) == result


def test_a_template_records_what_it_read() -> None:
    template, _ = parse_template("Order {workflow.order_id}, {workflow.absent}")
    assert template is not None
    assert compile_template(template)(VARIABLES).to_json() == {
        "expression": "Order {workflow.order_id}, {workflow.absent}",
        "variables": {"workflow.order_id": "o-1", "workflow.absent": None},
        "result": "Order o-1, ",
    }


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("a { b", "TEMPLATE_SYNTAX", (1, 3)),
        ("a } b", "TEMPLATE_SYNTAX", (1, 3)),
        ("{a}}", "TEMPLATE_SYNTAX", (1, 4)),
        ("{a{b}}", "TEMPLATE_SYNTAX", (1, 1)),
        ("{'a}", "TEMPLATE_SYNTAX", (1, 1)),
        ("x {} y", "EXPRESSION_EMPTY", (1, 4)),
        ("x {a >} y", "EXPRESSION_SYNTAX", (1, 7)),
        ("x\ny {a\n> >} z", "EXPRESSION_SYNTAX", (3, 3)),
    ],
)
def test_a_bad_template_is_a_problem_at_its_place(text: str, code: str, position: tuple[int, int]) -> None:
    template, problems = parse_template(text)
    assert template is None
    assert [(problem.code, problem.position) for problem in problems] == [(code, Position(*position))]


def test_all_bad_expressions_of_a_template_are_found() -> None:
    _, problems = parse_template("{a >} and {b <} and {c}")
    assert [problem.position for problem in problems] == [Position(1, 5), Position(1, 15)]


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("No {entity.numbr}.", "UNKNOWN_VARIABLE", 12),
        ("No {entity.number}, {entity.paid == 'x'}.", "UNLIKE_TYPES", 22),
        ("Lines: {entity.lines}", "NOT_TEXT", 9),
    ],
)
def test_expressions_in_templates_are_checked(text: str, code: str, column: int) -> None:
    template, problems = parse_template(text)
    assert template is not None, problems
    found = check_template(template, SCOPE)
    assert [(problem.code, problem.position) for problem in found] == [(code, Position(1, column))]


def test_a_lone_expression_may_be_of_any_type() -> None:
    template, _ = parse_template("{entity.lines}")
    assert template is not None
    assert check_template(template, SCOPE) == []


@pytest.mark.parametrize("text", ["a {b = 1} {{c}}", "{context.x}", "", "{{", "}}{a['}']}"])
def test_the_canonical_text_means_the_same(text: str) -> None:
    template, _ = parse_template(text)
    assert template is not None
    assert parse_template(render_template(template))[0] == template
