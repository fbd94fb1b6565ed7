"""From every node exactly one edge is taken: whatever can happen is answered, and only once (D2)."""

from typing import Any

import pytest

from assent.compiler import Compilation
from tests.authored import codes, compile_slot, compile_steps

END = {"id": "done", "type": "terminal"}
OTHER = {"id": "other", "type": "terminal"}
CHOICE = {"id": "choose", "type": "condition"}
ASK = {"id": "ask", "type": "approval", "assignee": {"role": "clerk"}}
FORM = {"id": "form", "type": "action"}
CALL = {"id": "call", "type": "system", "operation": {"sdk": "a.b"}}


def compiled(step: dict[str, Any], *transitions: dict[str, Any], **more: Any) -> Compilation:
    return compile_steps([step, END, OTHER], list(transitions), **more)


def go(source: str, to: str = "done", **more: Any) -> dict[str, Any]:
    return {"from": source, "to": to, **more}


WHEN = {"condition": "workflow.n > 1"}


def test_edges_without_a_priority_are_asked_conditions_first() -> None:
    workflow = compiled(CHOICE, go("choose"), go("choose", "other", **WHEN)).unwrap()
    assert [edge.target for edge in workflow.outgoing("choose")] == ["other", "done"]


def test_edges_with_a_priority_are_asked_in_that_order_then_by_id() -> None:
    steps = [CHOICE, END, OTHER, {"id": "third", "type": "terminal"}]
    transitions = [
        go("choose", "other", **WHEN, priority=2),
        go("choose", "done", condition="workflow.n > 2", priority=2),
        go("choose", "third", priority=3),
    ]
    workflow = compile_steps(steps, transitions).unwrap()
    assert [edge.target for edge in workflow.outgoing("choose")] == ["done", "other", "third"]


def test_two_unconditional_edges_for_one_outcome_are_both_shown() -> None:
    compilation = compiled(CHOICE, go("choose"), go("choose", "other"))
    assert codes(compilation) == ["SEVERAL_UNCONDITIONAL", "SEVERAL_UNCONDITIONAL"]
    assert {problem.path for problem in compilation.problems} == {("transitions", 0), ("transitions", 1)}


def test_an_edge_behind_an_unconditional_one_is_never_asked() -> None:
    compilation = compiled(CHOICE, go("choose", priority=1), go("choose", "other", **WHEN, priority=2))
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("SHADOWED_EDGE", ("transitions", 1))


def test_a_choice_needs_an_edge_for_when_nothing_holds() -> None:
    compilation = compiled(CHOICE, go("choose", **WHEN), go("choose", "other", condition="workflow.n > 2"))
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("NO_DEFAULT", ("steps", 0))


def test_a_guard_may_refuse_a_person_but_must_not_strand_a_machine() -> None:
    by_person = [go("ask", guard="orders:approve"), go("ask", "other", event="rejected")]
    assert compiled(ASK, *by_person).workflow is not None
    by_machine = compile_steps([CALL, END], [go("call", guard="orders:approve")])
    assert codes(by_machine) == ["NO_DEFAULT"]


def test_a_step_that_leads_nowhere_is_a_dead_end() -> None:
    compilation = compile_steps([CHOICE, CALL, END], [go("choose", **WHEN), go("choose", "call")])
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("DEAD_END", ("steps", 1))


def test_an_outcome_that_nobody_answers_is_a_problem() -> None:
    compilation = compile_steps([CALL, END], [go("call", event="error")])
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("UNMATCHED_OUTCOME", ("steps", 0))


def test_errors_may_stay_unanswered() -> None:
    assert compile_steps([CALL, END], [go("call")]).workflow is not None


@pytest.mark.parametrize(
    ("step", "label"),
    [
        (ASK, "aproved"),
        (CALL, "approved"),
        (CHOICE, "rejected"),
        ({"id": "call", "type": "webhook_out", "url": "https://example.org"}, "error"),
        ({"id": "n", "type": "notification", "channel": "sms", "to": "a", "text": "b"}, "error"),
    ],
)
def test_a_label_that_never_comes_is_a_problem_at_the_label(step: dict[str, Any], label: str) -> None:
    more = [go(step["id"], event="rejected")] if step is ASK else []
    compilation = compiled(step, go(step["id"]), *more, go(step["id"], "other", event=label))
    (problem,) = compilation.problems
    assert problem.code == "DANGLING_LABEL"
    assert problem.path == ("transitions", 1 + len(more), "event")


def test_a_webhook_that_is_awaited_may_fail() -> None:
    hook = {"id": "hook", "type": "webhook_out", "url": "https://example.org", "await": True}
    assert compiled(hook, go("hook"), go("hook", "other", event="error")).workflow is not None


def test_a_form_answers_the_events_that_its_edges_name() -> None:
    workflow = compiled(FORM, go("form", event="accept"), go("form", "other", event="decline")).unwrap()
    assert workflow.answers("form", "decline")[0].target == "other"


def test_a_form_with_declared_outcomes_answers_only_those_and_all_of_them() -> None:
    form = {**FORM, "outcomes": ["accept", "decline"]}
    compilation = compiled(form, go("form", event="accept"), go("form", "other", event="refuse"))
    assert codes(compilation) == ["DANGLING_LABEL", "UNMATCHED_OUTCOME"]


def test_an_approval_may_have_answers_of_its_own() -> None:
    ask = {**ASK, "outcomes": ["more_information"]}
    transitions = [go("ask"), go("ask", "other", event="rejected")]
    assert codes(compiled(ask, *transitions)) == ["UNMATCHED_OUTCOME"]
    assert compiled(ask, *transitions, go("ask", "ask", event="more_information")).workflow is not None


def test_a_timeout_must_be_answered_by_the_step_or_by_the_flow() -> None:
    timed = {**FORM, "timeout": "3d"}
    assert codes(compile_steps([timed, END], [go("form")])) == ["UNMATCHED_OUTCOME"]
    assert compile_steps([{**timed, "on_timeout": "done"}, END], [go("form")]).workflow is not None
    whole = compile_steps([timed, END], [go("form")], timeout="9d", on_timeout="done")
    assert whole.workflow is not None


@pytest.mark.parametrize("outcomes", [["ok"], []])
def test_a_way_for_timeouts_needs_a_timeout(outcomes: list[str]) -> None:
    step = {**FORM, "on_timeout": "done", "outcomes": outcomes}
    compilation = compile_steps([step, END], [go("form", event="ok")])
    (problem,) = compilation.problems
    assert problem.code == "DANGLING_LABEL"
    assert problem.path[:3] == ("steps", 0, "on_timeout")


def test_nothing_leaves_an_end() -> None:
    compilation = compile_steps([FORM, END, OTHER], [go("form"), go("done", "other")])
    assert codes(compilation) == ["END_WITH_EDGES"]


def test_a_step_that_nothing_leads_to_is_a_problem() -> None:
    compilation = compile_steps([FORM, END, OTHER], [go("form")])
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("UNREACHABLE", ("steps", 2))


def test_steps_that_never_end_are_a_problem() -> None:
    second = {"id": "second", "type": "action"}
    compilation = compile_steps([FORM, second], [go("form", "second"), go("second", "form")])
    assert set(codes(compilation)) == {"CANNOT_END"}


def test_the_same_edge_twice_is_a_problem() -> None:
    compilation = compile_steps([FORM, END], [go("form"), go("form")])
    (problem,) = compilation.problems
    assert (problem.code, problem.path) == ("DUPLICATE_EDGE", ("transitions", 1))


def test_a_slot_that_nothing_enters_is_a_dead_end_at_its_entry() -> None:
    slot = {"nodes": [{"id": "a", "type": "approval", "approvers": {"role": "x"}}], "edges": [go("a", "out")]}
    assert codes(compile_slot(slot)) == ["DEAD_END", "UNREACHABLE"]
