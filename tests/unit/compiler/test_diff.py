"""What differs between two workflows, grouped by slot, with provenance."""

import json
from typing import Any

from assent.compiler import compile_effective, compile_flow
from assent.compiler.diff import Detail, Diff, WorkflowChange, diff
from assent.model.workflow import Workflow
from tests.authored import invoice_envelope, invoice_patch, orders_flow

SLOT = "slot:submitted_to_approved"


def bare() -> Workflow:
    return compile_effective(invoice_envelope()).unwrap()


def patched(**slot: Any) -> Workflow:
    patch = invoice_patch()
    patch["slots"][SLOT] |= slot
    return compile_effective(invoice_envelope(), patch).unwrap()


def changes(found: Diff, sort: str) -> list[WorkflowChange]:
    return [change for group in found.groups.values() for change in group if change.sort == sort]


def test_a_workflow_does_not_differ_from_itself() -> None:
    found = diff(patched(), patched())
    assert found.is_empty
    assert "nothing changed" in found.to_text()


def test_what_a_patch_adds_to_the_envelope_is_grouped_under_its_slot() -> None:
    found = diff(bare(), patched())
    assert set(found.groups) == {SLOT, "envelope"}
    (waives,) = found.groups["envelope"]
    assert (waives.what, waives.id) == ("setting", "publish_capabilities")
    added = {change.text for change in changes(found, "added") if change.what == "node"}
    assert {"size (condition)", "finance (approval)", "both (parallel_join)", "in (slot)"} <= added
    assert {change.provenance for change in changes(found, "added")} == {SLOT}


def test_the_default_approval_that_a_patch_replaces_is_removed() -> None:
    removed = [change.text for change in changes(diff(bare(), patched()), "removed")]
    assert "sys:approval:approve (approval)" in removed


def test_the_direct_edge_that_a_slot_replaces_counts_to_the_slot_and_comes_from_the_envelope() -> None:
    patch = invoice_patch()
    slot = "slot:draft_to_submit"
    patch["slots"] = {
        slot: {
            "nodes": [{"id": "s", "type": "script", "set": {"x": "1"}}],
            "edges": [{"from": "in", "to": "s"}, {"from": "s", "to": "out"}],
        }
    }
    found = diff(bare(), compile_effective(invoice_envelope(), patch).unwrap())
    (removed,) = changes(found, "removed")
    assert (removed.group, removed.provenance) == (slot, "envelope")
    back = diff(compile_effective(invoice_envelope(), patch).unwrap(), bare())
    assert set(back.groups) == {slot}


def test_a_stricter_slot_is_tightened_once_and_not_for_every_node() -> None:
    found = diff(patched(), patched(edit="locked"))
    (change,) = changes(found, "tightened")
    assert (change.id, change.details) == (SLOT, (Detail("edit", "amend_only", "locked"),))
    assert changes(diff(patched(edit="locked"), patched()), "loosened")


def test_a_stricter_node_is_tightened_by_itself() -> None:
    patch = invoice_patch()
    patch["slots"][SLOT]["nodes"][2]["edit"] = "locked"
    found = diff(patched(), compile_effective(invoice_envelope(), patch).unwrap())
    (change,) = changes(found, "tightened")
    assert change.text == "of one"


def test_a_changed_setting_is_shown_from_what_to_what() -> None:
    patch = invoice_patch()
    patch["slots"][SLOT]["nodes"][2]["due"] = "48h"
    (change,) = changes(diff(patched(), compile_effective(invoice_envelope(), patch).unwrap()), "changed")
    assert change.details == (Detail("config.due", 86400, 172800),)


def test_two_versions_of_a_flow_differ_in_steps_edges_and_settings() -> None:
    flow = orders_flow()
    flow["version"] = 2
    flow["timeout"] = "48h"
    flow["transitions"][2]["guard"] = "orders:approve:chief"
    found = diff(compile_flow(orders_flow()).unwrap(), compile_flow(flow).unwrap())
    assert [change.id for change in changes(found, "changed")] == [
        "expiry.after_seconds",
        "escalated->process",
    ]
    assert set(found.groups) == {"flow"}


def test_a_difference_is_plain_json_and_text() -> None:
    found = diff(bare(), patched())
    assert json.loads(json.dumps(found.to_json()))["groups"][SLOT]
    text = found.to_text()
    assert f"\n{SLOT}\n" in text
    assert "  + edge size → fork when entity.grand_total > 1000000" in text


def test_a_change_of_who_is_asked_is_shown_at_its_group() -> None:
    def asking(quorum: int) -> Workflow:
        finance = {"approvers": {"role": "finance"}, "mode": "quorum", "quorum": quorum}
        groups = {"finance": finance, "cfo": {"approvers": {"role": "cfo"}}}
        nodes = [{"id": "ask", "type": "approval", "groups": groups}]
        return patched(nodes=nodes, edges=[{"from": "in", "to": "ask"}, {"from": "ask", "to": "out"}])

    (change,) = changes(diff(asking(2), asking(3)), "changed")
    assert change.details == (Detail("config.tiers[0].groups[1].quorum", 2, 3),)
