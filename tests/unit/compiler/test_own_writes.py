"""What actions may write: in a stable region only fields declared `system`, and never the state (D4, D19)."""

from typing import Any

import pytest

from tests.authored import compile_slot

STABLE, AFTER, DRAFT = "slot:submitted_to_approved", "slot:approved_to_active", "slot:draft_to_submit"


def problems_of(slot_id: str, **action: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    nodes = [
        {"id": "act", "type": "action", **action},
        {"id": "boss", "type": "approval", "approvers": {"role": "manager"}},
    ]
    edges = [{"from": "in", "to": "act"}, {"from": "act", "to": "boss"}, {"from": "boss", "to": "out"}]
    if slot_id == AFTER:
        edges.append({"from": "boss", "to": "out", "on": "rejected"})
    compilation = compile_slot({"nodes": nodes, "edges": edges}, slot_id)
    return [(problem.code, problem.path[4:]) for problem in compilation.problems]


def test_a_system_field_may_be_written_while_approvals_are_open() -> None:
    assert problems_of(STABLE, action="invoice.update", payload={"posted_at": "{now}"}) == []


def test_any_other_field_may_not() -> None:
    found = problems_of(STABLE, action="invoice.update", payload={"cost_center": "R&D"})
    assert found == [("OWN_WRITE", ("payload", "cost_center"))]


@pytest.mark.parametrize("slot_id", [DRAFT, AFTER])
def test_outside_a_stable_region_every_field_may_be_written(slot_id: str) -> None:
    assert problems_of(slot_id, action="invoice.update", payload={"cost_center": "R&D"}) == []


def test_a_field_that_is_not_there_cannot_be_written_anywhere() -> None:
    found = problems_of(DRAFT, action="invoice.update", payload={"colour": "red"})
    assert found == [("UNKNOWN_FIELD", ("payload", "colour"))]


def test_an_action_of_the_application_says_what_it_writes_while_approvals_are_open() -> None:
    assert problems_of(STABLE, action="invoice.post") == [("OWN_WRITE", ("action",))]
    assert problems_of(STABLE, action="invoice.post", writes=["posted_at"]) == []
    found = problems_of(STABLE, action="invoice.post", writes=["posted_at", "currency"])
    assert found == [("OWN_WRITE", ("writes", 1))]


@pytest.mark.parametrize("verb", ["approve", "cancel", "transition", "amend"])
def test_only_gates_change_the_state(verb: str) -> None:
    assert problems_of(DRAFT, action=f"invoice.{verb}") == [("GATE_ONLY", ("action",))]


def test_an_action_on_another_entity_says_which() -> None:
    assert problems_of(STABLE, action="order.hold") == [("MISSING_KEY", ("action",))]
    assert problems_of(STABLE, action="order.hold", entity="entity.vendor_id") == []
    assert problems_of(STABLE, action="order.create", payload={"total": "{entity.grand_total}"}) == []


def test_naming_the_own_entity_does_not_make_it_another() -> None:
    found = problems_of(STABLE, action="invoice.update", entity=" entity.id", payload={"cost_center": "R&D"})
    assert found == [("OWN_WRITE", ("payload", "cost_center"))]


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ({"type": "script", "set": {"tenant_id": "1"}}, ("set", "tenant_id")),
        ({"type": "script", "set": {"approved_by": "actor.id"}}, ("set", "approved_by")),
        ({"type": "form", "form": {"subject_id": {"type": "text"}}}, ("form", "subject_id")),
        (
            {"type": "system", "operation": {"sdk": "a.b"}, "output": {"partition_id": "result.x"}},
            ("output", "partition_id"),
        ),
    ],
)
def test_no_step_sets_what_is_the_instance_s_own(step: dict[str, Any], path: tuple[str, ...]) -> None:
    slot = {
        "nodes": [{"id": "x", **step}],
        "edges": [{"from": "in", "to": "x"}, {"from": "x", "to": "out"}],
    }
    (problem,) = compile_slot(slot, DRAFT).problems
    assert (problem.code, problem.path[4:]) == ("RESERVED_NAME", path)


def test_the_fields_of_a_form_make_sense() -> None:
    slot = {
        "nodes": [{"id": "x", "type": "form", "form": {"size": {"type": "enum"}}}],
        "edges": [{"from": "in", "to": "x"}, {"from": "x", "to": "out"}],
    }
    (problem,) = compile_slot(slot, DRAFT).problems
    assert (problem.code, problem.path[4:]) == ("MISSING_KEY", ("form", "size"))


def test_an_action_says_whose_it_is() -> None:
    assert problems_of(DRAFT, action="update") == [("BAD_NAME", ("action",))]
