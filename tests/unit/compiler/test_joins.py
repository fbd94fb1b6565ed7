"""Splits and joins nest, joins know how many tokens they wait for, and ANY joins may ask of arrivals."""

from typing import Any

import pytest

from assent.compiler import Compilation
from tests.authored import codes, compile_steps

END = {"id": "done", "type": "terminal"}


def script(name: str) -> dict[str, Any]:
    return {"id": name, "type": "script", "set": {"x": "1"}}


def split(name: str) -> dict[str, Any]:
    return {"id": name, "type": "parallel_split"}


def join(name: str, mode: str = "all") -> dict[str, Any]:
    return {"id": name, "type": "parallel_join", "mode": mode}


def arrows(*texts: str) -> list[dict[str, Any]]:
    """`a>b` or `a>b when condition`."""
    found = []
    for text in texts:
        ends, _, condition = text.partition(" when ")
        source, target = ends.split(">")
        found.append({"from": source, "to": target} | ({"condition": condition} if condition else {}))
    return found


def compiled(steps: list[dict[str, Any]], *edges: str) -> Compilation:
    return compile_steps([*steps, END], arrows(*edges))


FORK = [split("fork"), script("a"), script("b"), join("meet")]


def test_a_join_waits_for_every_branch_of_its_split() -> None:
    workflow = compiled(
        [split("fork"), script("a"), script("b"), script("c"), join("meet")],
        *("fork>a", "fork>b", "fork>c", "a>meet", "b>meet", "c>meet", "meet>done"),
    ).unwrap()
    assert (workflow.joins["meet"].split, workflow.joins["meet"].token_count) == ("fork", 3)


def test_alternatives_within_a_branch_are_one_token() -> None:
    steps = [*FORK, {"id": "which", "type": "condition"}]
    workflow = compiled(
        steps,
        *(
            "fork>which",
            "which>a when workflow.x == 1",
            "which>meet",
            "a>meet",
            "fork>b",
            "b>meet",
            "meet>done",
        ),
    ).unwrap()
    assert workflow.joins["meet"].token_count == 2


def test_blocks_nest() -> None:
    steps = [
        split("outer"),
        split("inner"),
        script("a"),
        script("b"),
        join("inner_meet"),
        script("c"),
        join("meet"),
    ]
    workflow = compiled(
        steps,
        *("outer>inner", "outer>c", "inner>a", "inner>b", "a>inner_meet", "b>inner_meet"),
        *("inner_meet>meet", "c>meet", "meet>done"),
    ).unwrap()
    assert workflow.joins["inner_meet"].split == "inner"
    assert workflow.joins["meet"].split == "outer"


def test_a_branch_may_lead_straight_to_the_join() -> None:
    workflow = compiled(
        [split("fork"), script("a"), join("meet")], "fork>a", "fork>meet", "a>meet", "meet>done"
    ).unwrap()
    assert workflow.joins["meet"].token_count == 2


@pytest.mark.parametrize(
    ("code", "steps", "edges"),
    [
        ("BRANCHES_MEET", FORK[:3], ("fork>a", "fork>b", "a>b", "b>done")),
        ("END_IN_BLOCK", FORK[:3], ("fork>a", "fork>b", "a>done", "b>done")),
        ("JOIN_WITHOUT_SPLIT", [script("a"), join("meet")], ("a>meet", "meet>done")),
        ("NARROW_SPLIT", [split("fork"), script("a"), join("meet")], ("fork>a", "a>meet", "meet>done")),
        (
            "CONDITIONAL_SPLIT",
            FORK,
            ("fork>a when workflow.x == 1", "fork>b", "a>meet", "b>meet", "meet>done"),
        ),
        (
            "JOIN_MISSES_BRANCH",
            [*FORK, script("c")],
            ("fork>a", "fork>b", "fork>c", "a>meet", "b>meet", "meet>done", "c>done"),
        ),
        (
            "JOIN_OF_SEVERAL",
            [split("one"), split("two"), script("a"), script("b"), script("c"), join("meet")],
            ("one>two", "one>c", "two>a", "two>b", "a>meet", "b>meet", "c>meet", "meet>done"),
        ),
    ],
)
def test_what_does_not_nest_is_a_problem(
    code: str, steps: list[dict[str, Any]], edges: tuple[str, ...]
) -> None:
    assert code in codes(compiled(steps, *edges))


def test_a_missing_branch_is_named() -> None:
    compilation = compiled(
        [*FORK, script("c")],
        *("fork>a", "fork>b", "fork>c", "a>meet", "b>meet", "meet>done", "c>done"),
    )
    (problem,) = [problem for problem in compilation.problems if problem.code == "JOIN_MISSES_BRANCH"]
    assert "`fork`" in problem.message
    assert "`c`" in problem.message
    assert problem.path == ("steps", 3)


def test_a_loop_edge_must_not_leave_a_block() -> None:
    steps = [{"id": "ask", "type": "form"}, *FORK]
    compilation = compiled(
        steps,
        *("ask>fork", "fork>a", "fork>b", "a>meet when workflow.x == 1", "a>ask", "b>meet", "meet>done"),
    )
    assert "LOOP_OUT_OF_BLOCK" in codes(compilation)


def test_a_loop_edge_must_not_enter_a_join() -> None:
    steps = [*FORK, {"id": "ask", "type": "form"}]
    compilation = compile_steps(
        [*steps, END],
        [
            *arrows("fork>a", "fork>b", "a>meet", "b>meet", "meet>ask", "ask>done"),
            {"from": "ask", "to": "meet", "event": "again"},
        ],
    )
    assert "LOOP_OUT_OF_BLOCK" in codes(compilation)


def test_a_loop_within_one_branch_is_fine() -> None:
    steps = [split("fork"), {"id": "ask", "type": "form"}, script("b"), join("meet")]
    compilation = compile_steps(
        [*steps, END],
        [
            *arrows("fork>ask", "fork>b", "ask>meet", "b>meet", "meet>done"),
            {"from": "ask", "to": "ask", "event": "again"},
        ],
    )
    assert compilation.unwrap().edges["ask->ask:again"].loop


ANY = [split("fork"), script("a"), script("b"), join("first", "any")]


def test_a_condition_into_an_any_join_is_asked_of_the_arrival() -> None:
    workflow = compile_steps(
        [*ANY, END, {"id": "none", "type": "terminal"}],
        [
            *arrows(
                "fork>a",
                "fork>b",
                "a>first when workflow.x == 1",
                "b>first when workflow.x == 2",
                "first>done",
            ),
            {"from": "first", "to": "none", "event": "none"},
        ],
    ).unwrap()
    edge = workflow.edges["a->first"]
    assert (edge.condition, edge.qualifies) == (None, "workflow.x == 1")
    assert workflow.joins["first"].may_be_none


def test_an_any_join_that_may_find_nobody_must_answer_that() -> None:
    compilation = compiled(
        ANY, "fork>a", "fork>b", "a>first when workflow.x == 1", "b>first when workflow.x == 2", "first>done"
    )
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("UNMATCHED_OUTCOME", ("steps", 3))
    assert "`none`" in problem.message


def test_an_any_join_with_a_branch_that_always_counts_never_answers_none() -> None:
    compilation = compile_steps(
        [*ANY, END, {"id": "none", "type": "terminal"}],
        [
            *arrows("fork>a", "fork>b", "a>first when workflow.x == 1", "b>first", "first>done"),
            {"from": "first", "to": "none", "event": "none"},
        ],
    )
    assert codes(compilation) == ["DANGLING_LABEL"]
