"""A workflow as a Mermaid flowchart: the same text for the same workflow, whatever its labels hold."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assent.compiler.edges import success_of
from assent.model.graph import Edge, Node, NodeKind
from assent.model.nodes import KINDS
from assent.model.workflow import Workflow

LABEL_CHARACTERS_MAX: Final = 80

_ENTITIES: Final = str.maketrans(
    {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "|": "#124;", "`": "#96;"}
)


def diagram(workflow: Workflow) -> str:
    """Return the flowchart, with a box around every filled slot; loops and rejections are dotted."""
    names = {node_id: f"n{number}" for number, node_id in enumerate(workflow.topological_order)}
    lines = ["flowchart TD", *_free_nodes(workflow, names), *_slot_boxes(workflow, names)]
    lines += (f"  {_arrow(edge, workflow, names)}" for edge in _ordered_edges(workflow, names))
    lines += [*_expiry(workflow, names), *_window_classes(workflow, names)]
    return "\n".join(lines) + "\n"


def _free_nodes(workflow: Workflow, names: Mapping[str, str]) -> Iterator[str]:
    for node_id in workflow.topological_order:
        if workflow.slot_map[node_id] not in workflow.slots:
            yield f"  {names[node_id]}{_shape(workflow.nodes[node_id])}"


def _slot_boxes(workflow: Workflow, names: Mapping[str, str]) -> Iterator[str]:
    for number, slot in enumerate(workflow.slots.values()):
        inside = [node for node in workflow.topological_order if workflow.slot_map[node] == slot.id]
        if inside:
            yield f'  subgraph s{number}["{_escaped(slot.id)}"]'
            yield from (f"    {names[node]}{_shape(workflow.nodes[node])}" for node in inside)
            yield "  end"


def _shape(node: Node) -> str:
    opening, closing = KINDS[node.kind].shape
    return f'{opening}"{_label(node)}"{closing}'


def _label(node: Node) -> str:
    lines = [node.label or node.name]
    if KINDS[node.kind].kind_is_shown:
        lines.append(" ".join(part for part in (node.kind.value, _who(node.config)) if part))
    return "<br/>".join(_escaped(line) for line in (*lines, *_tiers(node.config), *_later(node)))


def _who(config: Mapping[str, Any]) -> str:
    """Return who or what a node is about, in a word or two."""
    if "tiers" in config:
        return f"by {_deciders(config['tiers'][0])}" if len(config["tiers"]) == 1 else "by amount"
    if "assignee" in config:
        return f"by {_named(config['assignee'])}"
    for name in config.get("operation", {}).values():
        return str(name)
    for key in ("task", "action", "rule", "channel", "key", "cron", "capability", "mode"):
        if key in config:
            return str(config[key])
    return ""


def _tiers(config: Mapping[str, Any]) -> Iterator[str]:
    tiers = config.get("tiers", ())
    for tier in tiers if len(tiers) > 1 else ():
        yield f"up to {tier['up_to']}: {_deciders(tier)}" if "up_to" in tier else f"above: {_deciders(tier)}"


def _deciders(tier: Mapping[str, Any]) -> str:
    groups = tier["groups"]
    if len(groups) == 1:
        return _named(groups[0]["approvers"])
    return tier.get("enough") or " && ".join(group["name"] for group in groups)


def _named(people: Mapping[str, Any]) -> str:
    for key, value in people.items():
        return f"{key} {value}" if value is not True else key
    return ""


def _later(node: Node) -> Iterator[str]:
    """Yield what happens without an answer; an approval by default must be visible."""
    if "escalate" in node.config:
        escalate = node.config["escalate"]
        yield f"after {_length(escalate['after'])} also {_named(escalate['to'])}"
    if "default" in node.config and node.timeout_seconds is not None:
        yield f"after {_length(node.timeout_seconds)} {node.config['default']} by itself"


def _ordered_edges(workflow: Workflow, names: Mapping[str, str]) -> Iterator[Edge]:
    for node_id in names:
        yield from workflow.outgoing(node_id)


def _arrow(edge: Edge, workflow: Workflow, names: Mapping[str, str]) -> str:
    line = "-.->" if edge.loop or edge.leaves_slot else "-->"
    text = _edge_text(edge, workflow.nodes[edge.source].kind)
    label = f'|"{_escaped(text)}"|' if text else ""
    return f"{names[edge.source]} {line}{label} {names[edge.target]}"


def _edge_text(edge: Edge, kind: NodeKind) -> str:
    obvious = edge.label == success_of(kind) and kind is not NodeKind.APPROVAL
    parts = [] if obvious else [edge.label]
    parts += [text for text in (edge.condition, edge.qualifies) if text]
    return ": ".join([*parts, *([f"needs {edge.guard}"] if edge.guard else [])])


def _expiry(workflow: Workflow, names: Mapping[str, str]) -> Iterator[str]:
    if workflow.expiry is not None and workflow.expiry.target is not None:
        after = _length(workflow.expiry.after_seconds)
        yield f'  {names[workflow.start]} -.->|"after {after}"| {names[workflow.expiry.target]}'


def _length(seconds: int) -> str:
    unit, size = next(
        ((u, s) for u, s in (("d", 86_400), ("h", 3_600), ("m", 60)) if seconds % s == 0), ("s", 1)
    )
    return f"{seconds // size}{unit}"


def _window_classes(workflow: Workflow, names: Mapping[str, str]) -> Iterator[str]:
    for window, style in (("amend_only", "stroke-dasharray: 4 3"), ("locked", "stroke-width: 3px")):
        members = [names[node] for node in names if workflow.edit_windows[node] == window]
        if members:
            yield f"  classDef {window} {style}"
            yield f"  class {','.join(members)} {window}"


def _escaped(text: str) -> str:
    """Text that Mermaid shows as it is: one line, of bounded length, with nothing that it would read."""
    line = " ".join(text.split())
    line = line if len(line) <= LABEL_CHARACTERS_MAX else f"{line[: LABEL_CHARACTERS_MAX - 1]}…"
    return line.translate(_ENTITIES)
