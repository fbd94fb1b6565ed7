"""Sources become workflows: contracts meet their patches, and every problem is at its place."""

import pytest

from assent.compiler.declarations import CompiledSources, DeclarationKind, compile_sources, kind_of
from assent.compiler.source import read_source, read_sources

CONTRACT = """\
contract: note
version: {version}
on_drift: fail
fields: {{size: {{type: integer}}}}
lifecycle:
  initial: draft
  states: {{draft: {{edit: editable}}, submitted: {{edit: amend_only}}, active: {{edit: locked}}}}
  transitions:
    submit: {{from: draft, to: submitted}}
    approve: {{from: submitted, to: active, approval: required, on_reject: draft}}
"""
PATCH = """\
patch: note
base: {{entity_type: note, envelope_version: {version}}}
slots:
  {slot}:
    nodes:
      - {{id: ask, type: {kind}}}
    edges:
      - {{from: in, to: ask}}
      - {{from: ask, to: out}}
"""
FLOW = """\
flow: notes.review
version: 1
start: read
steps:
  - {id: read, type: approval, assignee: {role: reader}}
  - {id: done, type: terminal}
transitions:
  - {from: read, event: approved, to: done}
  - {from: read, event: rejected, to: done}
"""
APPROVAL = "approval, approvers: {role: boss}"


def contract(version: int = 1) -> str:
    return CONTRACT.format(version=version)


def patch(version: int = 1, slot: str = "slot:submitted_to_approved", kind: str = APPROVAL) -> str:
    return PATCH.format(version=version, slot=slot, kind=kind)


def compiled(**files: str) -> CompiledSources:
    return compile_sources(source for name, text in files.items() for source in read_sources(text, name))


def places(found: CompiledSources) -> list[tuple[str, str | None, int | None]]:
    return [(p.code, p.source, p.position and p.position.line) for p in found.problems]


@pytest.mark.parametrize("kind", DeclarationKind)
def test_the_leading_key_says_what_a_source_declares(kind: DeclarationKind) -> None:
    assert kind_of(read_source(f"# first a comment\n{kind}: x\nversion: 1\n", "t")) is kind


def test_a_flow_from_elsewhere_is_known_by_its_id_and_steps() -> None:
    text = FLOW.replace("flow:", "id:")
    found = compiled(flow=text)
    assert places(found) == []
    assert [workflow.key for workflow in found.workflows] == ["notes.review"]


@pytest.mark.parametrize("text", ["[1, 2]", "just text", "version: 1", "{}", "contrct: x"])
def test_what_declares_nothing_is_a_problem(text: str) -> None:
    assert places(compiled(file=text)) == [("UNKNOWN_DECLARATION", "file", 1)]


def test_patches_meet_their_contract_by_name_and_version() -> None:
    found = compiled(one=contract(1), two=contract(2), second=patch(2))
    assert places(found) == []
    first, second = found.compiled
    assert first.workflow == first.bare
    assert second.workflow != second.bare
    assert [source.name for source in second.sources] == ["two", "second"]


def test_everything_may_stand_in_one_file() -> None:
    found = compiled(all=f"{contract()}---\n{patch()}---\n{FLOW}---\nscenario: it works\n")
    assert places(found) == []
    assert [workflow.key for workflow in found.workflows] == ["note", "notes.review"]
    assert len(found.scenarios) == 1


def test_several_patches_of_one_contract_fill_different_slots() -> None:
    before = patch(slot="slot:draft_to_submit", kind="script, set: {seen: true}")
    found = compiled(contract=contract(), before=before, after=patch())
    assert places(found) == []
    (workflow,) = found.workflows
    assert {slot.id for slot in workflow.slots.values() if slot.filled} == {
        "slot:draft_to_submit",
        "slot:submitted_to_approved",
    }


def test_a_problem_of_one_of_several_patches_is_shown_in_that_patch() -> None:
    broken = patch(slot="slot:draft_to_submit", kind="script, set: {seen: entity.colour}")
    found = compiled(contract=contract(), fine=patch(), broken=broken)
    assert places(found) == [("UNKNOWN_VARIABLE", "broken", 6)]
    assert found.workflows == ()


def test_a_patch_without_its_contract_is_told_so() -> None:
    assert places(compiled(patch=patch())) == [("UNKNOWN_CONTRACT", "patch", 2)]


def test_a_patch_for_another_version_is_told_so_at_the_version() -> None:
    found = compiled(contract=contract(2), patch=patch(1))
    assert places(found) == [("BASE_MISMATCH", "patch", 2)]


def test_a_patch_of_a_broken_contract_is_not_blamed_for_it() -> None:
    found = compiled(contract=contract().replace("initial: draft", "initial: drft"), patch=patch())
    assert places(found) == [("UNKNOWN_STATE", "contract", 6)]


def test_a_contract_with_a_broken_patch_has_no_workflow_but_keeps_its_bare_one() -> None:
    found = compiled(contract=contract(), patch=patch(kind="aproval"))
    assert places(found) == [("UNKNOWN_KIND", "patch", 6)]
    (one,) = found.compiled
    assert (one.workflow, one.bare is not None) == (None, True)


def test_problems_of_all_files_are_found_at_once() -> None:
    found = compiled(
        a=contract().replace("to: active", "to: activ"),
        b=FLOW.replace("to: done", "to: dne", 1),
        c="flow: x\nflow: y\n",
        d="a: [",
    )
    assert {problem.source for problem in found.problems} == {"a", "b", "c", "d"}


def test_a_source_with_a_problem_of_form_gives_no_workflow() -> None:
    assert compiled(flow=FLOW + "version: 1\n").workflows == ()


@pytest.mark.parametrize("text", [contract(), FLOW])
def test_one_version_is_declared_once(text: str) -> None:
    assert places(compiled(first=text, again=text)) == [("DUPLICATE_DECLARATION", "again", 2)]


def test_a_contract_without_a_workflow_has_nothing_to_patch() -> None:
    straight = contract().replace("on_drift: fail", "workflow: none").replace("amend_only", "editable")
    straight = straight.replace(", approval: required, on_reject: draft", "")
    assert places(compiled(contract=straight)) == []
    assert places(compiled(contract=straight, patch=patch())) == [("NO_ENVELOPE", "patch", 2)]


def test_a_flow_is_checked_against_the_contract_of_its_entity() -> None:
    asks = FLOW.replace("version: 1", "version: 1\nentity: note")
    asks = asks.replace(
        "event: approved, to: done", "event: approved, to: done, condition: entity.colour == 1"
    )
    assert "UNKNOWN_VARIABLE" in [code for code, _, _ in places(compiled(contract=contract(), flow=asks))]


@pytest.mark.parametrize(
    "data", ["contract: [x]", "patch: {}", "flow: null", "contract: {a: b}\npatch: x", "scenario: 1"]
)
def test_wrong_types_in_leading_keys_are_problems_not_exceptions(data: str) -> None:
    found = compiled(a=data, b=patch(), c=contract())
    assert [workflow.key for workflow in found.workflows] == ["note"]
    assert all(source == "a" for _, source, _ in places(found))
