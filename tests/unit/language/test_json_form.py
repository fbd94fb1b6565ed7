"""Conditions as JSON: the same trees, the same limits, problems with their path."""

from typing import Any

import pytest

from assent.language import from_json, parse, parse_condition, prepare, render, to_json
from tests.unit.language.invoices import SCOPE


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ({"field": "entity.grand_total", "op": ">", "value": 1000}, "entity.grand_total > 1000"),
        ({"field": "a", "op": "=", "value": None}, "a == null"),
        ({"field": "a", "op": "==", "value": True}, "a == true"),
        ({"field": "a", "op": "==", "value": 1.50}, "a == 1.5"),
        ({"field": "a", "op": "in", "value": ["x", 2]}, "a in ['x', 2]"),
        ({"field": "a['b c'].d", "op": "startsWith", "value": "it's"}, r"a['b c'].d startsWith 'it\'s'"),
        ({"field": "a", "op": "<", "value": {"field": "org.limit"}}, "a < org.limit"),
        ({"all": [{"expression": "a"}, {"expression": "b || c"}]}, "a && (b || c)"),
        ({"any": [{"expression": "a"}, {"not": {"expression": "b > 1"}}]}, "a || !(b > 1)"),
        ({"all": [{"expression": "a"}]}, "a"),
        ({"expression": "context.x = 1"}, "workflow.x == 1"),
    ],
)
def test_a_json_condition_is_the_expression_it_stands_for(condition: Any, text: str) -> None:
    expression, problems = parse_condition(condition)
    assert expression is not None, problems
    assert expression == parse(text)[0]
    assert expression.text == render(expression)


@pytest.mark.parametrize(
    ("condition", "code", "where"),
    [
        (5, "WRONG_TYPE", ""),
        (None, "WRONG_TYPE", ""),
        ([], "WRONG_TYPE", ""),
        ({}, "CONDITION_FORM", ""),
        ({"when": 1}, "CONDITION_FORM", ""),
        ({"field": "a", "op": ">"}, "CONDITION_FORM", ""),
        ({"all": [], "any": []}, "CONDITION_FORM", ""),
        ({1: 2}, "CONDITION_FORM", ""),
        ({"all": []}, "WRONG_TYPE", "all"),
        ({"all": {"expression": "a"}}, "WRONG_TYPE", "all"),
        ({"all": [{"expression": "a"}, 7]}, "WRONG_TYPE", "all[1]"),
        ({"any": [{"not": {"expression": "a >"}}]}, "EXPRESSION_SYNTAX", "any[0].not.expression"),
        ({"expression": 5}, "WRONG_TYPE", "expression"),
        ({"field": "a > 1", "op": ">", "value": 1}, "WRONG_TYPE", "field"),
        ({"field": "5", "op": ">", "value": 1}, "WRONG_TYPE", "field"),
        ({"field": "a", "op": "~", "value": 1}, "BAD_VALUE", "op"),
        ({"field": "a", "op": ["=="], "value": 1}, "BAD_VALUE", "op"),
        ({"field": "a", "op": "==", "value": {"b": 1}}, "WRONG_TYPE", "value"),
        ({"field": "a", "op": "==", "value": {"field": "b ="}}, "EXPRESSION_SYNTAX", "value.field"),
        ({"field": "a", "op": "==", "value": float("nan")}, "NUMBER_NOT_KEPT", "value"),
        ({"field": "a", "op": "==", "value": 10**5000}, "NUMBER_NOT_KEPT", "value"),
        ({"field": "a", "op": "in", "value": ["x", "\x00"]}, "TEXT_NOT_KEPT", "value[1]"),
        ({"field": "a", "op": "in", "value": [{"b": 1}]}, "WRONG_TYPE", "value[0]"),
        ({"field": "a", "op": "==", "value": object()}, "WRONG_TYPE", "value"),
    ],
)
def test_a_bad_json_condition_is_a_problem_at_its_path(condition: Any, code: str, where: str) -> None:
    expression, problems = from_json(condition)
    assert expression is None
    assert [(problem.code, problem.where) for problem in problems] == [(code, where)]


def test_all_problems_of_a_json_condition_are_found() -> None:
    condition = {"all": [{"field": "a b", "op": "~", "value": {}}, {"any": 1}, {"expression": "a"}]}
    _, problems = from_json(condition)
    assert [problem.where for problem in problems] == [
        "all[0].op",
        "all[0].field",
        "all[0].value",
        "all[1].any",
    ]


@pytest.mark.parametrize(
    "text",
    ["a > 1 && (b in ['x'] || !c)", "a == 1.5", "1 < a", "a[b.c] == null", "a == b", "true", "a in [1, b]"],
)
def test_expressions_survive_the_way_to_json_and_back(text: str) -> None:
    expression, _ = parse(text)
    assert expression is not None
    assert from_json(to_json(expression))[0] == expression


def test_what_json_has_a_form_for_is_written_in_it() -> None:
    expression, _ = parse("entity.total >= 5 && !(entity.tags contains 'x')")
    assert expression is not None
    assert to_json(expression) == {
        "all": [
            {"field": "entity.total", "op": ">=", "value": 5},
            {"not": {"field": "entity.tags", "op": "contains", "value": "x"}},
        ]
    }


def test_a_prepared_condition_is_parsed_checked_and_ready() -> None:
    program, problems = prepare({"field": "entity.rate", "op": ">", "value": "9.5"}, SCOPE)
    assert program is not None, problems
    assert program.holds({"entity": {"rate": "10.0"}})
    assert [problem.code for problem in prepare("entity.rate > 'x' && foo", SCOPE)[1]] == [
        "BAD_LITERAL",
        "UNKNOWN_VARIABLE",
    ]
    assert [problem.code for problem in prepare("entity.rate >", SCOPE)[1]] == ["EXPRESSION_SYNTAX"]
