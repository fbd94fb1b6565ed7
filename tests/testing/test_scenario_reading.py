"""A mistake in a scenario is told with its line and with what was expected; all of them at once."""

import pytest

from tests.testing.written import COMPANY, CREATED, read

MISTAKES = {
    "no such person": (
        "- {as: anne, create: note, data: {}}",
        "UNKNOWN_PERSON",
        (4, 10),
        "did you mean `ann`?",
    ),
    "nobody acts": ("- {create: note, data: {}}", "MISSING_KEY", (4, 5), None),
    "nothing happens": ("- {as: ann}", "NOT_ONE_THING", (4, 5), "such as"),
    "two things happen": ("- {as: ann, submit: {}, update: {}}", "NOT_ONE_THING", (4, 5), "such as"),
    "a key nobody knows": ("- {as: ann, create: note, dat: {}}", "NOT_ONE_THING", (4, 5), "such as"),
    "no duration": ("- {wait: a while}", "BAD_DURATION", (4, 12), "write it as"),
    "an expectation nobody knows": ("- {expect: {stat: draft}}", "UNKNOWN_KEY", (4, 15), None),
    "a window that is none": ("- {expect: {edit: open}}", "BAD_VALUE", (4, 21), None),
    "no code": ("- {as: ann, submit: {}, refused: locked}", "BAD_NAME", (4, 36), None),
    "a list where fields belong": ("- {as: ann, submit: [1]}", "WRONG_TYPE", (4, 15), None),
    "fields in two places": ("- {as: ann, submit: {}, data: {}}", "UNKNOWN_KEY", (4, 27), None),
    "a document nobody made": ("- {on: other, expect: {state: x}}", "UNKNOWN_DOCUMENT", (4, 10), None),
    "a delegate nobody knows": ("- {as: ann, delegate: {to: zoe}}", "UNKNOWN_PERSON", (4, 30), None),
    "a workflow command that is none": ("- {as: ann, workflow: stop}", "BAD_VALUE", (4, 25), None),
    "a manager nobody knows": ("- {people: {zoe: {manager: max}}}", "UNKNOWN_PERSON", (4, 30), None),
    "a step that is no object": ("- submit", "WRONG_TYPE", (4, 5), None),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_told_at_its_place(name: str) -> None:
    step, code, place, hint = MISTAKES[name]
    scenario, problems = read(step)
    assert scenario is None
    (problem,) = problems
    assert problem.position is not None
    found = (problem.code, (problem.position.line, problem.position.column))
    assert found == (code, place), str(problem)
    assert problem.source == "note.scenario.yaml"
    assert hint is None or hint in (problem.hint or "")


def test_all_mistakes_are_told_at_once() -> None:
    _, problems = read("\n".join([MISTAKES["no duration"][0], MISTAKES["no such person"][0]]))
    assert {(p.code, p.position.line) for p in problems if p.position} == {
        ("BAD_DURATION", 4),
        ("UNKNOWN_PERSON", 5),
    }


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("people: {ann: {boss: max}}\n", "UNKNOWN_KEY"),
        ("people: {ann: {manager: max}}\n", "UNKNOWN_PERSON"),
        ("now: 2026-03-02\n", "WRONG_TYPE"),
        ("persons: {}\n", "UNKNOWN_KEY"),
    ],
)
def test_mistakes_above_the_steps_are_told_too(head: str, code: str) -> None:
    scenario, problems = read("- {wait: 1d}", head)
    assert scenario is None
    assert [problem.code for problem in problems] == [code]


def test_a_scenario_without_steps_is_none() -> None:
    scenario, problems = read("[]")
    assert scenario is None
    assert problems


def test_people_may_come_later_and_documents_have_names_from_then_on() -> None:
    scenario, problems = read(
        """
        - {people: {zoe: [reader]}}
        - {as: zoe, create: note, name: mine, data: {}}
        - {as: zoe, on: mine, submit: {}}
        """
    )
    assert (problems, scenario is not None) == ([], True)


def test_a_name_is_not_known_before_its_document_is_made() -> None:
    _, problems = read("- {on: mine, expect: {state: x}}\n- {as: ann, create: note, name: mine, data: {}}")
    assert [problem.code for problem in problems] == ["UNKNOWN_DOCUMENT"]


def test_a_step_keeps_its_text_over_several_lines() -> None:
    scenario, _ = read(
        f"{CREATED}- expect:\n    state: draft\n    data: {{text: hello}}\n- {{wait: 1d}}", COMPANY
    )
    assert scenario is not None
    texts = [(placed.line, placed.text) for placed in scenario.steps]
    assert texts == [
        (4, "{as: ann, create: note, data: {text: hello}}"),
        (5, "expect:\n  state: draft\n  data: {text: hello}"),
        (8, "{wait: 1d}"),
    ]
