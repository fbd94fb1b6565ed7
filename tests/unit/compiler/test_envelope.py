"""From a contract to its envelope: ids, edges, slots, windows, loops, and contracts that can have none."""

from typing import Any

import pytest

from assent.compiler import compile_contract, envelope_of, generate_envelope
from assent.model.canonical import canonical_json
from assent.model.contract import Contract, EditWindow, contract_from
from assent.model.graph import Envelope, Outcome
from assent.model.problems import Invalid
from tests.authored import invoice_contract, invoice_envelope


def contract(states: dict[str, Any], transitions: dict[str, Any], **more: Any) -> Contract:
    lifecycle = {
        "initial": next(iter(states)),
        "states": {
            name: {"edit": value} if isinstance(value, str) else value for name, value in states.items()
        },
        "transitions": transitions,
    }
    return contract_from({"contract": "thing", "version": 1, "lifecycle": lifecycle, **more})


def problems_of(made: Contract) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(problem.code, problem.path) for problem in envelope_of(made)[1]]


def test_the_standard_lifecycle_has_the_system_nodes_of_the_design() -> None:
    assert set(invoice_envelope().nodes) == {
        "sys:start",
        "sys:end",
        "sys:state:draft",
        "sys:state:submitted",
        "sys:state:active",
        "sys:state:cancelled",
        "sys:state:amended",
        "sys:gate:submit",
        "sys:gate:approve",
        "sys:gate:cancel",
        "sys:gate:amend",
    }


@pytest.mark.parametrize(
    ("slot_id", "entry", "exit_", "window", "stable"),
    [
        ("slot:draft_to_submit", "sys:state:draft", "sys:gate:submit", "editable", False),
        ("slot:submitted_to_approved", "sys:state:submitted", "sys:gate:approve", "amend_only", True),
        ("slot:approved_to_active", "sys:gate:approve", "sys:state:active", "locked", False),
        ("slot:amendment_cycle", "sys:state:amended", "sys:gate:submit", "editable", False),
    ],
)
def test_the_standard_lifecycle_has_the_slots_of_the_design(
    slot_id: str, entry: str, exit_: str, window: str, stable: bool
) -> None:
    slot = invoice_envelope().slots[slot_id]
    assert (slot.entry, slot.exit, slot.window, slot.stable) == (entry, exit_, window, stable)


def test_the_standard_lifecycle_has_no_other_slots() -> None:
    assert len(invoice_envelope().slots) == 4


def test_generating_again_gives_the_same_bytes() -> None:
    first, second = (canonical_json(generate_envelope(invoice_contract()).to_json()) for _ in range(2))
    assert first == second


def test_an_envelope_survives_json() -> None:
    assert Envelope.from_json(invoice_envelope().to_json()) == invoice_envelope()


def test_a_transition_from_several_states_has_one_gate_and_an_edge_from_each() -> None:
    edges = invoice_envelope().edges.values()
    sources = {edge.source for edge in edges if edge.target == "sys:gate:cancel"}
    assert sources == {"sys:state:draft", "sys:state:submitted", "sys:state:active"}


def test_a_command_leaves_a_state_by_the_name_of_its_transition() -> None:
    edge = invoice_envelope().edges["sys:state:draft->sys:gate:submit:submit"]
    assert edge.label == "submit"


def test_asking_for_approval_needs_no_command_where_the_entity_rests() -> None:
    edge = invoice_envelope().edges["sys:state:submitted->sys:gate:approve"]
    assert edge.label == Outcome.COMPLETED


def test_asking_for_approval_of_something_editable_waits_for_a_command() -> None:
    made = contract(
        {"draft": "editable", "active": "locked"},
        {"approve": {"from": "draft", "to": "active", "approval": "required"}},
    )
    edge = generate_envelope(made).edges["sys:state:draft->sys:gate:approve:approve"]
    assert edge.label == "approve"


def test_a_transition_can_be_told_to_set_out_by_itself() -> None:
    made = contract(
        {"draft": "editable", "sent": "locked", "done": "locked"},
        {
            "send": {"from": "draft", "to": "sent"},
            "confirm": {"from": "sent", "to": "done", "auto": True, "on_reject": "draft"},
        },
    )
    envelope = generate_envelope(made)
    assert envelope.edges["sys:state:sent->sys:gate:confirm"].label == Outcome.COMPLETED
    assert "slot:sent_to_confirm" in envelope.slots


def test_a_drifting_instance_can_reach_the_amended_state() -> None:
    envelope = invoice_envelope()
    assert envelope.amendment == "sys:gate:amend"
    assert envelope.edges["sys:state:submitted->sys:gate:amend:drift"].label == Outcome.DRIFT
    assert envelope.edges["sys:gate:amend->sys:state:amended"].loop


def test_without_an_amendment_branch_there_is_no_gate_for_it() -> None:
    made = contract(
        {"draft": "editable", "sent": "amend_only", "done": "locked"},
        {"send": {"from": "draft", "to": "sent"}, "close": {"from": "sent", "to": "done"}},
        on_drift="fail",
    )
    envelope = generate_envelope(made)
    assert envelope.amendment is None
    assert "sys:gate:amend" not in envelope.nodes


def test_a_rejection_goes_where_the_contract_says() -> None:
    edge = invoice_envelope().edges["sys:gate:approve->sys:state:draft:rejected"]
    assert (edge.label, edge.loop) == (Outcome.REJECTED, True)


def test_a_rejection_goes_back_to_where_the_token_came_from_when_the_contract_says_nothing() -> None:
    rejected = [
        (edge.target, edge.condition)
        for edge in invoice_envelope().edges.values()
        if edge.source == "sys:gate:submit" and edge.label == Outcome.REJECTED
    ]
    assert rejected == [("sys:state:amended", "entity.state == 'amended'"), ("sys:state:draft", None)]


def test_a_state_that_only_a_rejection_leads_to_is_reached() -> None:
    made = contract(
        {"a": "editable", "b": "editable", "void": "locked", "limbo": "locked"},
        {"ab": {"from": "a", "to": "b"}, "cancel": {"from": ["a", "b"], "to": "void", "on_reject": "limbo"}},
    )
    assert compile_contract(made).workflow is not None


def test_a_workflow_ends_in_locked_states_and_in_states_that_nothing_leaves() -> None:
    made = contract(
        {"draft": "editable", "posted": "locked", "filed": "editable"},
        {"post": {"from": "draft", "to": "posted"}, "file": {"from": "posted", "to": "filed"}},
    )
    edges = generate_envelope(made).edges
    assert {edge.source for edge in edges.values() if edge.target == "sys:end"} == {
        "sys:state:posted",
        "sys:state:filed",
    }


def test_a_locked_state_can_be_told_not_to_end_the_workflow() -> None:
    made = contract(
        {"draft": "editable", "posted": {"edit": "locked", "final": False}, "filed": "locked"},
        {"post": {"from": "draft", "to": "posted"}, "file": {"from": "posted", "to": "filed"}},
    )
    assert "sys:state:posted->sys:end" not in generate_envelope(made).edges


def test_a_lifecycle_may_go_back_by_command_and_loops_at_the_gate() -> None:
    made = contract(
        {"open": "editable", "held": "editable", "closed": "locked"},
        {
            "hold": {"from": "open", "to": "held"},
            "release": {"from": "held", "to": "open"},
            "close": {"from": "open", "to": "closed"},
        },
    )
    loops = {edge.id for edge in generate_envelope(made).edges.values() if edge.loop}
    assert "sys:gate:release->sys:state:open" in loops
    assert all(edge_id.startswith("sys:gate:") for edge_id in loops)
    assert compile_contract(made).workflow is not None


def test_a_slot_can_be_renamed() -> None:
    made = invoice_contract().model_copy(update={"slots": {}})
    data = made.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["slots"] = {"slot:draft_to_submit": {"name": "before_submission"}}
    slots = generate_envelope(contract_from(data)).slots
    assert "slot:before_submission" in slots
    assert "slot:draft_to_submit" not in slots


def test_a_slot_can_be_switched_off_and_a_way_out_gets_one_on_request() -> None:
    data = invoice_contract().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["slots"] = {"slot:draft_to_submit": {"enabled": False}, "slot:active_to_cancel": {"enabled": True}}
    slots = generate_envelope(contract_from(data)).slots
    assert "slot:draft_to_submit" not in slots
    assert slots["slot:active_to_cancel"].exit == "sys:gate:cancel"


def test_a_switched_off_slot_keeps_the_approval_that_its_gate_needs() -> None:
    data = invoice_contract().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    data["slots"] = {"slot:submitted_to_approved": {"enabled": False}}
    workflow = compile_contract(data).unwrap()
    assert "sys:approval:approve" in workflow.nodes


def test_slots_that_would_share_a_name_are_told_apart_by_their_transition() -> None:
    made = contract(
        {"draft": "editable", "low": "locked", "high": "locked"},
        {
            "pass": {"from": "draft", "to": "low", "approval": "required"},
            "excel": {"from": "draft", "to": "high", "approval": "required"},
        },
    )
    assert set(generate_envelope(made).slots) == {
        "slot:draft_to_pass",
        "slot:draft_to_excel",
        "slot:approved_to_low",
        "slot:approved_to_high",
    }


def test_names_that_meet_even_then_are_numbered() -> None:
    made = contract(
        {"a": "editable", "a_to_b": "editable", "z": "locked"},
        {
            "go": {"from": "a", "to": "a_to_b"},
            "b_to_c": {"from": "a", "to": "z"},
            "c": {"from": "a_to_b", "to": "z"},
        },
    )
    assert {"slot:a_to_b_to_c", "slot:a_to_b_to_c_2"} <= set(generate_envelope(made).slots)


def test_a_gate_is_as_strict_as_what_lies_before_it_and_rests_before_a_resting_state() -> None:
    windows = compile_contract(invoice_contract()).unwrap().edit_windows
    assert windows["sys:gate:submit"] is EditWindow.AMEND_ONLY
    assert windows["sys:gate:approve"] is EditWindow.AMEND_ONLY
    assert windows["sys:gate:cancel"] is EditWindow.LOCKED


def test_a_contract_without_a_workflow_has_no_envelope() -> None:
    made = contract(
        {"on": "editable", "off": "editable"}, {"stop": {"from": "on", "to": "off"}}, workflow="none"
    )
    with pytest.raises(Invalid) as refused:
        generate_envelope(made)
    assert [problem.code for problem in refused.value.problems] == ["NO_ENVELOPE"]


def test_an_amendment_needs_a_state_to_go_to() -> None:
    made = contract(
        {"draft": "editable", "sent": "amend_only", "done": "locked"},
        {"send": {"from": "draft", "to": "sent"}, "close": {"from": "sent", "to": "done"}},
    )
    assert problems_of(made) == [("MISSING_STATE", ("on_drift",))]


def test_an_automatic_transition_must_say_where_a_rejection_goes() -> None:
    made = contract(
        {"draft": "editable", "sent": "locked", "done": "locked"},
        {
            "send": {"from": "draft", "to": "sent"},
            "approve": {"from": "sent", "to": "done", "approval": "required"},
        },
    )
    assert problems_of(made) == [("MISSING_REJECTION", ("lifecycle", "transitions", "approve"))]


def test_only_one_transition_can_be_automatic() -> None:
    made = contract(
        {"draft": "editable", "left": "locked", "right": "locked"},
        {
            "go_left": {"from": "draft", "to": "left", "auto": True, "on_reject": "left"},
            "go_right": {"from": "draft", "to": "right", "auto": True, "on_reject": "left"},
        },
    )
    assert ("AMBIGUOUS_AUTO", ("lifecycle", "transitions", "go_right", "auto")) in problems_of(made)


def test_automatic_transitions_must_not_run_in_a_circle() -> None:
    made = contract(
        {"a": "editable", "b": "editable", "end": "locked"},
        {
            "ab": {"from": "a", "to": "b", "auto": True, "on_reject": "end"},
            "ba": {"from": "b", "to": "a", "auto": True, "on_reject": "end"},
        },
    )
    assert problems_of(made) == [("ENDLESS_LOOP", ("lifecycle", "transitions", "ab", "auto"))]


def test_a_workflow_cannot_end_where_it_sets_out() -> None:
    made = contract(
        {"a": {"edit": "editable", "final": True}, "b": "locked"},
        {"ab": {"from": "a", "to": "b", "auto": True, "on_reject": "b"}},
    )
    assert problems_of(made) == [("FINAL_AND_AUTO", ("lifecycle", "states", "a", "final"))]


def test_a_state_that_nothing_leads_to_is_a_problem() -> None:
    made = contract(
        {"draft": "editable", "lost": "locked", "done": "locked"}, {"end": {"from": "draft", "to": "done"}}
    )
    assert problems_of(made) == [("UNREACHABLE", ("lifecycle", "states", "lost"))]


def test_a_state_that_never_ends_is_a_problem() -> None:
    made = contract(
        {"a": "editable", "b": "editable"}, {"ab": {"from": "a", "to": "b"}, "ba": {"from": "b", "to": "a"}}
    )
    assert {code for code, _ in problems_of(made)} == {"CANNOT_END"}


@pytest.mark.parametrize("name", ["rejected", "drift", "completed", "timeout"])
def test_a_transition_must_not_be_called_like_an_outcome(name: str) -> None:
    made = contract({"a": "editable", "b": "locked"}, {name: {"from": "a", "to": "b"}})
    assert problems_of(made) == [("RESERVED_NAME", ("lifecycle", "transitions", name))]


def test_slots_that_do_not_exist_cannot_be_changed() -> None:
    made = contract(
        {"a": "editable", "b": "locked"}, {"ab": {"from": "a", "to": "b"}}, slots={"slot:a_to_c": {}}
    )
    assert problems_of(made) == [("UNKNOWN_SLOT", ("slots", "slot:a_to_c"))]


def test_two_slots_cannot_be_given_one_name() -> None:
    slots = {"slot:a_to_ab": {"name": "same"}, "slot:b_to_bc": {"name": "same"}}
    made = contract(
        {"a": "editable", "b": "editable", "c": "locked"},
        {"ab": {"from": "a", "to": "b"}, "bc": {"from": "b", "to": "c"}},
        slots=slots,
    )
    assert problems_of(made) == [("DUPLICATE", ("slots", "slot:b_to_bc", "name"))]


def test_a_contract_that_contradicts_itself_is_refused_before_anything_is_generated() -> None:
    broken = invoice_contract().model_copy(
        update={"lifecycle": invoice_contract().lifecycle.model_copy(update={"initial": "nowhere"})}
    )
    assert problems_of(broken) == [("UNKNOWN_STATE", ("lifecycle", "initial"))]
