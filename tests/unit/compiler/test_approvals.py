"""Where the contract requires approval, no way through the slot goes without one (D21)."""

from typing import Any

import pytest

from tests.authored import codes, compile_slot, compile_steps

SLOT = ("slots", "slot:submitted_to_approved")


def approval(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "approval", "approvers": {"role": "manager"}, **more}


def script(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "script", "set": {"x": "1"}, **more}


def edges(*texts: str) -> list[dict[str, Any]]:
    """`a>b`, `a>b:label`, `a>b?` for a condition."""
    found = []
    for text in texts:
        ends, _, label = text.rstrip("?").partition(":")
        source, target = ends.split(">")
        edge: dict[str, Any] = {"from": source, "to": target}
        edge |= {"on": label} if label else {}
        edge |= {"when": "entity.grand_total > 5"} if text.endswith("?") else {}
        found.append(edge)
    return found


CHOICE = {"id": "choose", "type": "condition"}
FORK = {"id": "fork", "type": "parallel_split"}


def meet(mode: str) -> dict[str, Any]:
    return {"id": "meet", "type": "parallel_join", "mode": mode}


GOOD: dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
    "one approval": ([approval("a")], ("in>a", "a>out")),
    "approval then script": ([approval("a"), script("s")], ("in>a", "a>s", "s>out")),
    "a waiver on the other way": (
        [CHOICE, approval("a"), script("s", waives_approval=True)],
        ("in>choose", "choose>a?", "choose>s", "a>out", "s>out"),
    ),
    "one approved branch of an ALL join": (
        [FORK, approval("a"), script("s"), meet("all")],
        ("in>fork", "fork>a", "fork>s", "a>meet", "s>meet", "meet>out"),
    ),
    "every branch of an ANY join": (
        [FORK, approval("a"), approval("b"), meet("any")],
        ("in>fork", "fork>a", "fork>b", "a>meet", "b>meet", "meet>out"),
    ),
    "an approval before the split": (
        [approval("a"), FORK, script("s"), script("t"), meet("any")],
        ("in>a", "a>fork", "fork>s", "fork>t", "s>meet", "t>meet", "meet>out"),
    ),
}
BAD: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], str]] = {
    "no approval": ([script("s")], ("in>s", "s>out"), "s"),
    "one way without": (
        [CHOICE, approval("a"), script("s")],
        ("in>choose", "choose>a?", "choose>s", "a>out", "s>out"),
        "s",
    ),
    "straight through": (
        [CHOICE, approval("a")],
        ("in>choose", "choose>a?", "choose>out", "a>out"),
        "choose",
    ),
    "left by its timeout": ([approval("a", timeout="1d")], ("in>a", "a>out", "a>out:timeout"), "a"),
    "a branch of an ANY join without": (
        [FORK, approval("a"), script("s"), meet("any")],
        ("in>fork", "fork>a", "fork>s", "a>meet", "s>meet", "meet>out"),
        "meet",
    ),
    "rejected but let through by a script": (
        [approval("a"), script("s")],
        ("in>a", "a>out", "a>s:rejected", "s>out"),
        "s",
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_an_approved_way_compiles(case: str) -> None:
    nodes, ways = GOOD[case]
    assert codes(compile_slot({"nodes": nodes, "edges": edges(*ways)})) == []


@pytest.mark.parametrize("case", BAD)
def test_a_way_without_approval_is_refused_where_it_ends(case: str) -> None:
    nodes, ways, culprit = BAD[case]
    (problem,) = compile_slot({"nodes": nodes, "edges": edges(*ways)}).problems
    assert problem.code == "MISSING_APPROVAL"
    index = next(number for number, node in enumerate(nodes) if node["id"] == culprit)
    assert problem.path == (*SLOT, "nodes", index)


def test_the_way_without_approval_is_shown() -> None:
    nodes, ways, _ = BAD["one way without"]
    (problem,) = compile_slot({"nodes": nodes, "edges": edges(*ways)}).problems
    assert "in → choose → s → out" in problem.message


def test_a_slot_that_needs_no_approval_takes_none() -> None:
    assert compile_slot(
        {"nodes": [script("s")], "edges": edges("in>s", "s>out")}, "slot:draft_to_submit"
    ).workflow


def test_a_waiver_where_nothing_needs_approval_is_a_problem() -> None:
    slot = {"nodes": [script("s", waives_approval=True)], "edges": edges("in>s", "s>out")}
    (problem,) = compile_slot(slot, "slot:draft_to_submit").problems
    assert problem.code == "NOTHING_TO_WAIVE"
    assert problem.path[-1] == "waives_approval"


def test_a_flow_has_nothing_to_waive() -> None:
    steps = [script("s", waives_approval=True), {"id": "done", "type": "terminal"}]
    assert codes(compile_steps(steps, [{"from": "s", "to": "done"}])) == ["NOTHING_TO_WAIVE"]


def test_an_approval_in_a_flow_must_say_where_a_rejection_goes() -> None:
    steps = [{"id": "a", "type": "approval", "assignee": {"role": "x"}}, {"id": "done", "type": "terminal"}]
    (problem,) = compile_steps(steps, [{"from": "a", "to": "done"}]).problems
    assert (problem.code, problem.path) == ("UNMATCHED_OUTCOME", ("steps", 0))
    assert "`rejected`" in problem.message
