"""The edit window of every node, and the nodes where an edit by another actor is drift (WF-05).

A patch may make a window stricter, never looser.
"""

from collections.abc import Iterator

from assent.compiler.draft import Filling, WorkflowDraft
from assent.compiler.envelope import gate_window
from assent.compiler.lifecycle import is_final
from assent.model.contract import Contract, EditWindow, strictest
from assent.model.graph import ENVELOPE, Node, NodeKind
from assent.model.problems import Path, Problem


def assign_windows(draft: WorkflowDraft) -> WorkflowDraft:
    if draft.contract is None or draft.envelope is None:
        return draft.evolve(
            windows={node: _written(draft, node) or EditWindow.EDITABLE for node in draft.nodes}
        )
    overrides = {filling.slot.id: filling.patch.edit for filling in draft.fillings if filling.patch.edit}
    slots = {
        slot.id: slot.evolve(window=strictest([slot.window, overrides.get(slot.id, slot.window)]))
        for slot in draft.slots.values()
    }
    windows = {}
    for node in draft.nodes.values():
        slot_id = draft.slot_map[node.id]
        place = _system_window(draft.contract, node) if slot_id == ENVELOPE else slots[slot_id].window
        windows[node.id] = strictest([place, _written(draft, node.id) or place])
    return draft.noting(_check(draft)).evolve(slots=slots, windows=windows, stable=_stable(draft))


def _written(draft: WorkflowDraft, node_id: str) -> EditWindow | None:
    return draft.declared[node_id].edit if node_id in draft.declared else None


def _system_window(contract: Contract, node: Node) -> EditWindow:
    match node.kind:
        case NodeKind.STATE:
            return contract.window(node.name)
        case NodeKind.LIFECYCLE_GATE:
            return gate_window(contract, node.config["from"], node.config["to"])
        case NodeKind.END:
            return strictest([contract.window(s) for s in contract.lifecycle.states if is_final(contract, s)])
        case _:
            return contract.window(contract.lifecycle.initial)


def _stable(draft: WorkflowDraft) -> frozenset[str]:
    """What lies in stable slots, and the states where an edit is an amendment."""
    return frozenset(
        node.id
        for node in draft.nodes.values()
        if ((slot := draft.slots.get(draft.slot_map[node.id])) is not None and slot.stable)
        or (
            node.kind is NodeKind.STATE
            and draft.contract is not None
            and draft.contract.window(node.name) is EditWindow.AMEND_ONLY
        )
    )


def _check(draft: WorkflowDraft) -> Iterator[Problem]:
    for filling in draft.fillings:
        yield from _check_window(draft, filling, filling.patch.edit, filling.slot.window, filling.path)
        window = filling.patch.edit or filling.slot.window
        for index, node in enumerate(filling.patch.nodes):
            yield from _check_window(draft, filling, node.edit, window, (*filling.path, "nodes", index))


def _check_window(
    draft: WorkflowDraft, filling: Filling, wanted: EditWindow | None, given: EditWindow, path: Path
) -> Iterator[Problem]:
    if wanted is None:
        return
    if wanted.strictness < given.strictness:
        message = f"edits of `{filling.slot.id}` are {given} here; `{wanted}` would be looser"
        yield Problem("LOOSER_WINDOW", message, (*path, "edit"), hint="a patch can only be stricter")
    elif wanted is EditWindow.AMEND_ONLY and not _can_amend(draft):
        message = "an edit here would lead to the amendment branch, which this contract does not have"
        yield Problem("NO_AMENDMENT", message, (*path, "edit"))


def _can_amend(draft: WorkflowDraft) -> bool:
    envelope = draft.envelope
    return envelope is not None and (envelope.amendment is not None or envelope.contract.on_drift == "fail")
