"""What differs between two workflows, slot by slot: for auditors and publishers, as a value, as JSON, as text.

Compared with the bare envelope it answers "what did this org change, and where"; compared with an older
version, "what will be different".
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from assent.compiler.edges import success_of
from assent.model.contract import EditWindow
from assent.model.graph import ENVELOPE, FLOW, Edge, Node, NodeKind
from assent.model.workflow import Workflow

Sort = Literal["added", "removed", "changed", "tightened", "loosened"]

_SIGNS: Final[Mapping[Sort, str]] = {
    "added": "+",
    "removed": "-",
    "changed": "~",
    "tightened": "!",
    "loosened": "?",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """One setting that is not what it was; None stands for absent."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.before)} → {_shown(self.after)}"


@dataclass(frozen=True, slots=True)
class WorkflowChange:
    sort: Sort
    what: Literal["node", "edge", "window", "setting"]
    id: str
    text: str
    """The same for people."""
    group: str
    """The slot that it concerns, or `envelope`, or `flow`."""
    provenance: str
    """Who brought what changed: the envelope, a slot's patch, a flow."""
    details: tuple[Detail, ...] = ()

    def lines(self) -> Iterator[str]:
        yield f"  {_SIGNS[self.sort]} {self.what} {self.text}"
        for detail in self.details:
            yield f"      {detail}"


@dataclass(frozen=True, slots=True)
class Diff:
    before: str
    after: str
    """Which workflows were compared."""
    groups: Mapping[str, tuple[WorkflowChange, ...]]

    @property
    def is_empty(self) -> bool:
        return not self.groups

    def to_json(self) -> dict[str, Any]:
        groups = {name: [asdict(change) for change in group] for name, group in self.groups.items()}
        return {"before": self.before, "after": self.after, "groups": groups}

    def to_text(self) -> str:
        lines = [f"{self.before} → {self.after}"]
        for name, group in self.groups.items():
            lines += ["", name, *(line for change in group for line in change.lines())]
        return "\n".join(lines if self.groups else [*lines, "", "nothing changed"]) + "\n"


def _shown(value: Any) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else repr(value)


def diff(before: Workflow, after: Workflow) -> Diff:
    """Return everything that differs; equal workflows give an empty difference."""
    groups: dict[str, list[WorkflowChange]] = {}
    for change in _changes(before, after):
        groups.setdefault(change.group, []).append(change)
    order = sorted(groups, key=lambda name: (name not in (ENVELOPE, FLOW), name))
    return Diff(_title(before), _title(after), {name: tuple(groups[name]) for name in order})


def _title(workflow: Workflow) -> str:
    return f"{workflow.key} version {workflow.version} ({workflow.hash[:12]})"


def _changes(before: Workflow, after: Workflow) -> Iterator[WorkflowChange]:
    yield from _settings(before, after)
    yield from _windows(before, after)
    yield from _nodes(before, after)
    yield from _edges(before, after)


def _settings(before: Workflow, after: Workflow) -> Iterator[WorkflowChange]:
    group = ENVELOPE if after.kind == "effective" else FLOW
    for detail in _details(_head(before), _head(after)):
        yield WorkflowChange("changed", "setting", detail.key, detail.key, group, group, (detail,))


def _head(workflow: Workflow) -> dict[str, Any]:
    keys = ("name", "start", "amendment", "expiry", "capabilities", "publish_capabilities", "permissions")
    content = workflow.content()
    return {key: content.get(key) for key in keys}


def _windows(before: Workflow, after: Workflow) -> Iterator[WorkflowChange]:
    for slot_id in sorted(before.slots.keys() & after.slots.keys()):
        old, new = before.slots[slot_id].window, after.slots[slot_id].window
        if old is not new:
            yield _window(slot_id, "of the slot", old, new, slot_id)
    for node_id in sorted(before.nodes.keys() & after.nodes.keys()):
        old, new, owner = before.window(node_id), after.window(node_id), after.slot_map[node_id]
        follows_slot = owner in after.slots and new is after.slots[owner].window
        if old is not new and not follows_slot:
            yield _window(node_id, f"of {_called(after.nodes[node_id])}", old, new, owner)


def _window(key: str, whose: str, old: EditWindow, new: EditWindow, owner: str) -> WorkflowChange:
    sort = "tightened" if new.strictness > old.strictness else "loosened"
    details = (Detail("edit", old.value, new.value),)
    return WorkflowChange(sort, "window", key, whose, owner, owner, details)  # type: ignore[arg-type]


def _nodes(before: Workflow, after: Workflow) -> Iterator[WorkflowChange]:
    removed = [node for node in before.topological_order if node not in after.nodes]
    for node_id in (*removed, *after.topological_order):
        workflow = after if node_id in after.nodes else before
        node, owner = workflow.nodes[node_id], workflow.slot_map[node_id]
        change = WorkflowChange("changed", "node", node_id, f"{_called(node)} ({node.kind})", owner, owner)
        yield from _compared(change, before.nodes.get(node_id), after.nodes.get(node_id))


def _called(node: Node) -> str:
    is_envelope = node.id.startswith("sys:") and node.kind is not NodeKind.SLOT
    return node.id if is_envelope else node.name


def _edges(before: Workflow, after: Workflow) -> Iterator[WorkflowChange]:
    removed = [edge for edge in before.edges if edge not in after.edges]
    kept = [edge for node in after.topological_order for edge in after.adjacency[node]]
    slots = _filled_gaps(before) | _filled_gaps(after)
    for edge_id in (*removed, *kept):
        workflow = after if edge_id in after.edges else before
        edge = workflow.edges[edge_id]
        # The envelope's direct edge belongs to the slot that took its place.
        group = slots.get((edge.source, edge.target), edge.provenance)
        change = WorkflowChange(
            "changed", "edge", edge_id, _edge_text(edge, workflow), group, edge.provenance
        )
        yield from _compared(change, before.edges.get(edge_id), after.edges.get(edge_id))


def _filled_gaps(workflow: Workflow) -> dict[tuple[str, str], str]:
    return {(slot.entry, slot.exit): slot.id for slot in workflow.slots.values() if slot.filled}


def _edge_text(edge: Edge, workflow: Workflow) -> str:
    source, target = workflow.nodes[edge.source], workflow.nodes[edge.target]
    label = "" if edge.label == success_of(source.kind) else f" on {edge.label}"
    condition = edge.condition or edge.qualifies
    return f"{_called(source)} → {_called(target)}{label}{f' when {condition}' if condition else ''}"


def _compared(
    change: WorkflowChange, old: Node | Edge | None, new: Node | Edge | None
) -> Iterator[WorkflowChange]:
    if old is None or new is None:
        yield replace(change, sort="added" if old is None else "removed")
    elif old != new:
        yield replace(change, details=tuple(_details(old.to_json(), new.to_json())))


def _details(old: Any, new: Any, key: str = "") -> Iterator[Detail]:
    """Yield the leaves that differ, with dotted keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        for part in sorted(old.keys() | new.keys()):
            yield from _details(old.get(part), new.get(part), f"{key}.{part}" if key else part)
    elif _are_alike(old, new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _details(before, after, f"{key}[{index}]")
    elif old != new:
        yield Detail(key, old, new)


def _are_alike(old: Any, new: Any) -> bool:
    """Return whether two lists hold as many objects, such as tiers and groups, so that each has its counterpart."""
    are_lists = isinstance(old, list) and isinstance(new, list) and len(old) == len(new)
    return are_lists and all(isinstance(item, dict) for item in (*old, *new))
