"""WF-06: what a patch writes stays inside the slots that it names.

Short ids become `usr:<slot>:<uuid>`, derived from slot and short id, so that compiling again changes nothing.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID, uuid5

from assent.compiler.draft import Filling, WorkflowDraft
from assent.model.graph import Envelope, Slot
from assent.model.parse import NAME_PATTERN, listed, shown
from assent.model.patch import IN, OUT, Patch, SlotPatch
from assent.model.problems import Path, Problem, did_you_mean

_SHORT_IDS: Final = UUID("6a0ae2c9-3d53-5a0e-9f0b-3f3cf1f6b1d4")
"""The namespace of derived ids. Never change it: every published patch's ids hang on it."""
_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def proxy_id(slot_id: str, side: str) -> str:
    return f"sys:{slot_id}:{side}"


def user_id(slot_id: str, short: str) -> str:
    return f"usr:{slot_id}:{uuid5(_SHORT_IDS, f'{slot_id}/{short}')}"


def fill_slots(draft: WorkflowDraft, envelope: Envelope, patches: Mapping[Path, Patch]) -> WorkflowDraft:
    """Return the draft with the fillings of every patch whose scope is right, and the problems of the others."""
    fillings: dict[str, Filling] = {}
    misplaced: list[Problem] = []
    torn: list[Problem] = []
    for path, patch in patches.items():
        misplaced += (problem.under(*path) for problem in _check_base(patch, envelope))
        for slot_id, slot_patch in patch.slots.items():
            where = (*path, "slots", slot_id)
            if problem := _check_slot(slot_id, envelope, fillings):
                misplaced.append(problem.under(*where))
            elif not slot_patch.is_empty:
                fillings[slot_id], problems = _filling(envelope.slots[slot_id], slot_patch, where)
                torn += problems
    ordered = tuple(fillings[slot_id] for slot_id in sorted(fillings))
    return draft.noting((*misplaced, *torn)).evolve(fillings=ordered, torn=bool(torn))


def _check_base(patch: Patch, envelope: Envelope) -> Iterator[Problem]:
    if patch.base.entity_type != envelope.entity_type:
        message = f"the envelope is of `{envelope.entity_type}`, the patch is for `{patch.base.entity_type}`"
        yield Problem("BASE_MISMATCH", message, ("base", "entity_type"))
    elif patch.base.envelope_version != envelope.version:
        made_for = patch.base.envelope_version
        message = f"the envelope has version {envelope.version}, the patch was made for {made_for}"
        hint = "look at what changed in the contract, then raise `envelope_version`"
        yield Problem("BASE_MISMATCH", message, ("base", "envelope_version"), hint)


def _check_slot(slot_id: str, envelope: Envelope, taken: Mapping[str, Filling]) -> Problem | None:
    slot = envelope.slots.get(slot_id)
    if slot is None or not slot.enabled:
        known = [slot.id for slot in envelope.slots.values() if slot.enabled]
        message = f"{shown(slot_id)} is not one of the slots: {listed(known)}"
        return Problem("UNKNOWN_SLOT", message, hint=did_you_mean(slot_id, known))
    if slot_id in taken:
        return Problem("DUPLICATE_SLOT", f"another patch fills `{slot_id}` already")
    return None


def _filling(slot: Slot, patch: SlotPatch, path: Path) -> tuple[Filling, list[Problem]]:
    ids = {IN: proxy_id(slot.id, IN), OUT: proxy_id(slot.id, OUT)}
    problems: list[Problem] = []
    for index, node in enumerate(patch.nodes):
        full = node.id if node.id.startswith("usr:") else user_id(slot.id, node.id)
        if problem := _check_node_id(node.id, full, slot.id, ids):
            problems.append(problem.under(*path, "nodes", index, "id"))
        ids.setdefault(node.id, full)
        ids.setdefault(full, full)
    for index, node in enumerate(patch.nodes):
        target = getattr(node, "on_timeout", None)
        if target is not None and (problem := _check_end(target, slot.id, ids, forbidden=IN)):
            problems.append(problem.under(*path, "nodes", index, "on_timeout"))
    for index, edge in enumerate(patch.edges):
        for key, target, forbidden in (("from", edge.from_, OUT), ("to", edge.to, IN)):
            if problem := _check_end(target, slot.id, ids, forbidden):
                problems.append(problem.under(*path, "edges", index, key))
    return Filling(slot, patch, path, ids), problems


def _check_node_id(node_id: str, full: str, slot_id: str, taken: Mapping[str, str]) -> Problem | None:
    if node_id in (IN, OUT):
        return Problem("RESERVED_NAME", f"`{node_id}` is the slot's own attachment point")
    if node_id in taken or full in taken:
        return Problem("DUPLICATE_ID", f"another node of the slot has the id {shown(node_id)}")
    if problem := _out_of_scope(node_id, slot_id):
        return problem
    if not node_id.startswith("usr:") and not _NAME.fullmatch(node_id):
        return Problem("BAD_NAME", f"{shown(node_id)} is not a name: lower-case ASCII letters, digits and _")
    return None


def _out_of_scope(node_id: str, slot_id: str) -> Problem | None:
    if node_id.startswith("sys:"):
        message = f"{shown(node_id)} belongs to the system; only `in` and `out` lead there"
        return Problem("SYSTEM_NODE", message)
    prefix = f"usr:{slot_id}:"
    if node_id.startswith("usr:") and not node_id.startswith(prefix):
        return Problem("OUT_OF_SLOT", f"{shown(node_id)} belongs to another slot than `{slot_id}`")
    if node_id.startswith(prefix) and not _UUID.fullmatch(node_id.removeprefix(prefix)):
        return Problem("BAD_NAME", f"{shown(node_id)} does not end in a UUID")
    return None


def _check_end(target: str, slot_id: str, ids: Mapping[str, str], forbidden: str) -> Problem | None:
    if target == forbidden:
        way = "into the slot" if forbidden == IN else "out of the slot"
        return Problem("WRONG_WAY", f"`{forbidden}` only leads {way}")
    if target in ids:
        return None
    if problem := _out_of_scope(target, slot_id):
        return problem
    message = f"{shown(target)} is not a node of this slot"
    return Problem("UNKNOWN_NODE", message, hint=did_you_mean(target, [IN, OUT, *ids]))
