"""Properties: nothing raises, canonical text is stable, and closures mean what the reference says."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.language import (
    OPEN,
    Expression,
    check_condition,
    check_template,
    compile_expression,
    compile_template,
    explain,
    from_json,
    parse,
    parse_template,
    parse_verb,
    render,
    render_template,
    render_verb,
    to_json,
    tree,
)
from assent.language.render import render_node
from assent.language.syntax import Compare, Index, Node, Operator, Variable, depth_of, dereferences_of
from assent.language.types import DATETIME, DECIMAL, Scope, list_of, object_of
from tests.unit.language import strategies as some
from tests.unit.language.invoices import SCOPE
from tests.unit.language.reference import evaluate

DECLARED = Scope(
    {
        "entity": object_of({"rate": DECIMAL, "due": DATETIME, "tags": list_of(DECIMAL)}, open=True),
        "now": DATETIME,
    },
    open=True,
)
READINGS = {"entity.rate": "decimal", "entity.due": "time", "entity.tags": "decimal", "now": "time"}

often = settings(max_examples=200, deadline=None)


def expression_of(node: Node) -> Expression:
    """The tree with its canonical text; longer and deeper than authors may write, where it came out so."""
    return Expression(node, render_node(node))


@pytest.mark.parametrize(
    ("read", "write"),
    [(parse, render), (parse_template, render_template), (parse_verb, render_verb)],
    ids=["expression", "template", "verb"],
)
@often
@given(text=some.any_text)
def test_no_text_makes_reading_raise(read: Any, write: Any, text: str) -> None:
    found, problems = read(text)
    assert (found is None) == bool(problems)
    assert all(str(problem) for problem in problems)
    if found is not None:
        assert read(write(found), canonical=True)[0] == found


@often
@given(some.json_conditions)
def test_no_json_makes_reading_raise(value: Any) -> None:
    expression, problems = from_json(value)
    assert (expression is None) == bool(problems)


@often
@given(some.nodes)
def test_the_canonical_text_reads_back_as_the_same_tree(node: Node) -> None:
    text = render_node(node)
    expression, problems = parse(text, canonical=True)
    if expression is None:
        assert {problem.code for problem in problems} <= {
            "EXPRESSION_TOO_LONG",
            "EXPRESSION_TOO_DEEP",
            "EXPRESSION_TOO_MANY_DEREFERENCES",
        }
        assert depth_of(node) > 10 or dereferences_of(node) > 20 or len(text) > 3000
    else:
        assert expression.root == node
        assert render(expression) == text


@often
@given(some.nodes, some.variable_maps)
def test_closures_agree_with_the_reference(node: Node, variables: dict[str, Any]) -> None:
    program = compile_expression(expression_of(node))
    expected = evaluate(node, variables, {"now": "time"})
    assert same(program(variables).result, expected)
    assert same(program.value(variables), expected)


@often
@given(some.plain_nodes, some.variable_maps)
def test_closures_with_declared_types_agree_with_the_reference(node: Node, variables: dict[str, Any]) -> None:
    program = compile_expression(expression_of(node), DECLARED)
    assert same(program(variables).result, evaluate(node, variables, READINGS))


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(Operator), some.pairs, st.sampled_from(["a", "rate", "due", "tags"]), st.booleans())
def test_any_two_values_compare_as_in_the_reference(
    operator: Operator, pair: tuple[Any, Any], name: str, swapped: bool
) -> None:
    sides: list[Node] = [Variable(("entity", name)), Variable(("workflow", "b"))]
    node = Compare(operator, *(reversed(sides) if swapped else sides))
    variables = {"entity": {name: pair[0]}, "workflow": {"b": pair[1]}}
    for scope, readings in ((OPEN, {}), (DECLARED, READINGS)):
        program = compile_expression(expression_of(node), scope)
        assert program(variables).result is evaluate(node, variables, readings)


@often
@given(some.values, some.values)
def test_any_index_looks_up_as_in_the_reference(target: Any, key: Any) -> None:
    node = Index(Variable(("entity", "a")), Variable(("entity", "b")))
    variables = {"entity": {"a": target, "b": key}}
    assert same(compile_expression(expression_of(node)).value(variables), evaluate(node, variables, {}))


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down: Python holds that `1 == True`."""
    return repr(left) == repr(right)


@often
@given(some.nodes, some.variable_maps)
def test_explanations_agree_with_evaluations(node: Node, variables: dict[str, Any]) -> None:
    run = compile_expression(expression_of(node))(variables)
    explained = explain(expression_of(node), variables)
    assert same(explained.result, run.result)
    assert str(explained)
    assert run.to_json()["expression"] == render_node(node)


@often
@given(some.nodes)
def test_checking_and_drawing_never_raise(node: Node) -> None:
    expression = expression_of(node)
    for scope in (OPEN, SCOPE, DECLARED):
        for problem in check_condition(expression, scope):
            assert problem.position is not None
    assert len(tree(expression).splitlines()) >= depth_of(node)


@often
@given(some.nodes)
def test_json_stands_for_the_same_tree(node: Node) -> None:
    expression, problems = from_json(to_json(expression_of(node)))
    assert expression is None or expression.root == node
    assert {problem.code for problem in problems} <= {
        "EXPRESSION_TOO_DEEP",
        "EXPRESSION_TOO_LONG",
        "EXPRESSION_TOO_MANY_DEREFERENCES",
    }


@often
@given(some.any_text, some.variable_maps)
def test_templates_never_raise(text: str, variables: dict[str, Any]) -> None:
    template, _ = parse_template(text)
    if template is not None:
        check_template(template, SCOPE)
        result = compile_template(template)(variables).result
        assert template.whole is not None or isinstance(result, str)
