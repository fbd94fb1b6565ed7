"""The edit window of every node, the nodes where an edit by another actor is drift (WF-05), and own writes.

A patch may make a window stricter, never looser. A workflow writes to its own entity (D4, D19) and to its variables:
gates alone change the state, and where the entity rests an action writes only fields declared `system`.
"""

from collections.abc import Iterator

from assent.compiler.draft import Filling, WorkflowDraft
from assent.compiler.envelope import gate_window
from assent.compiler.lifecycle import is_final
from assent.model.contract import Contract, EditWindow, check_fields, strictest
from assent.model.graph import ENVELOPE, Node, NodeKind
from assent.model.nodes import Action, Approval, Form, NodeDeclaration
from assent.model.problems import Path, Problem
from assent.model.terms import RESERVED_VARIABLES


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
    """Return what lies in stable slots, and the states where an edit is an amendment."""
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


def check_writes(draft: WorkflowDraft) -> WorkflowDraft:
    problems: list[Problem] = []
    for node_id, declared in draft.declared.items():
        found = list(_check_variables(declared))
        if isinstance(declared, Action):
            found += _check_action(declared, draft.contract, stable=node_id in draft.stable)
        problems += (problem.under(*draft.place(node_id)) for problem in found)
    return draft.noting(problems)


def _check_variables(declared: NodeDeclaration) -> Iterator[Problem]:
    for key in ("set", "output", "form"):
        for name in getattr(declared, key, ()):
            if name in RESERVED_VARIABLES:
                yield Problem(
                    "RESERVED_NAME", f"`{name}` is the engine's own; choose another name", (key, name)
                )
    if isinstance(declared, Approval | Form):
        yield from check_fields(declared.form, ("form",))


def _check_action(action: Action, contract: Contract | None, *, stable: bool) -> Iterator[Problem]:
    entity_type, _, verb = action.action.rpartition(".")
    if not entity_type:
        message = f"`{action.action}` does not say whose action it is"
        yield Problem("BAD_NAME", message, ("action",), hint="write `<entity type>.<action>`")
    elif verb == "create" or (action.entity is not None and action.entity.strip() != "entity.id"):
        return
    elif contract is None or entity_type != contract.name:
        message = f"`{action.action}` does not say which {entity_type} it is about"
        yield Problem("MISSING_KEY", message, ("action",), hint="add `entity: <expression of its id>`")
    elif verb in contract.lifecycle.transitions or verb in ("transition", "amend"):
        message = (
            f"`{action.action}` would change the state of the workflow's own {entity_type}; gates do that"
        )
        yield Problem("GATE_ONLY", message, ("action",))
    else:
        yield from _check_fields(action, verb, contract, stable=stable)


def _check_fields(action: Action, verb: str, contract: Contract, *, stable: bool) -> Iterator[Problem]:
    for field, path in _written_fields(action, verb):
        spec = contract.fields.get(field)
        if spec is None:
            yield Problem("UNKNOWN_FIELD", f"{contract.name} has no field `{field}`", path)
        elif stable and not spec.system:
            message = f"`{field}` cannot be written while approvals of this version are open"
            yield Problem("OWN_WRITE", message, path, hint="only fields with `system: true` can")
    if stable and verb != "update" and action.writes is None:
        message = f"`{action.action}` must say which fields it writes while approvals are open"
        yield Problem("OWN_WRITE", message, ("action",), hint="add `writes: [<field>, …]`")


def _written_fields(action: Action, verb: str) -> Iterator[tuple[str, Path]]:
    if verb == "update":
        for field in action.payload:
            yield field, ("payload", field)
    for index, field in enumerate(action.writes or ()):
        yield field, ("writes", index)
