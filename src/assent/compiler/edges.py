"""Edges: from the arrows that authors write, with labels and priorities filled in, and conditions in canonical text.

Where the author does not say, this says which outcome an edge answers and when it is asked. Ids come from what an edge
joins, not from its place in the source: permuting the source changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from assent.compiler.draft import ParsedCondition
from assent.language import parse_condition, render
from assent.model.graph import Edge, NodeKind
from assent.model.nodes import KINDS
from assent.model.problems import Path, Problem

PRIORITY_CONDITIONAL: Final = 100
PRIORITY_UNCONDITIONAL: Final = 1_000
"""An edge without a condition is asked last, so that it does not hide the others."""


def success_of(kind: NodeKind) -> str:
    """Return the outcome that an edge answers if its author names none."""
    return KINDS[kind].success


def default_priority(*, conditional: bool) -> int:
    return PRIORITY_CONDITIONAL if conditional else PRIORITY_UNCONDITIONAL


def stem_of(source: str, target: str, label: str, kind: NodeKind) -> str:
    """`review->process`, with the label where it is not the obvious one."""
    return f"{source}->{target}" if label == success_of(kind) else f"{source}->{target}:{label}"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One edge as written, with its ends resolved."""

    source: str
    target: str
    ends: tuple[str, str]
    """Source and target as their author calls them."""
    kind: NodeKind
    """Of the source."""
    path: Path
    label: str | None = None
    condition: Any = None
    condition_path: Path = ()
    guard: str | None = None
    priority: int | None = None
    qualifies: bool = False
    """Whether it leads into an ANY join, where a condition is asked of the arrival (D23)."""


@dataclass(slots=True)
class Written:
    """Edges, and what the passes need to know of their source."""

    edges: list[Edge] = field(default_factory=list)
    places: dict[str, Path] = field(default_factory=dict)
    conditions: dict[str, ParsedCondition] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


_Read = tuple[Edge, Arrow, ParsedCondition | None]


def written_edges(arrows: Iterable[Arrow], prefix: str, provenance: str) -> Written:
    """Return the edges of `arrows`, in canonical order; `prefix` begins their ids."""
    families: dict[str, list[_Read]] = defaultdict(list)
    for arrow in arrows:
        condition = _read(arrow)
        edge = _edge(arrow, condition, prefix, provenance)
        families[edge.id].append((edge, arrow, condition))
    written = Written()
    for family in (families[stem] for stem in sorted(families)):
        _number(sorted(family, key=lambda read: _content(read[0])), written)
    return written


def _number(family: list[_Read], written: Written) -> None:
    """Return edges with the same ends and label under ids with a number, in an order of their content."""
    seen = set()
    for number, (edge, arrow, condition) in enumerate(family, start=1):
        if _content(edge) in seen:
            written.problems.append(Problem("DUPLICATE_EDGE", "the same edge is there twice", arrow.path))
            continue
        seen.add(_content(edge))
        named = edge if number == 1 else edge.evolve(id=f"{edge.id}#{number}")
        written.edges.append(named)
        written.places[named.id] = arrow.path
        if condition is not None:
            written.conditions[named.id] = condition


def _content(edge: Edge) -> tuple[int, str, str, str]:
    return edge.priority, edge.condition or "", edge.guard or "", edge.qualifies or ""


def _read(arrow: Arrow) -> ParsedCondition | None:
    if arrow.condition is None:
        return None
    expression, problems = parse_condition(arrow.condition)
    # What cannot be read keeps a text of its own until the expression pass refuses it.
    text = str(arrow.condition) if expression is None else render(expression)
    return ParsedCondition(text, arrow.condition_path, expression, tuple(problems))


def _edge(arrow: Arrow, read: ParsedCondition | None, prefix: str, provenance: str) -> Edge:
    label = str(arrow.label or success_of(arrow.kind))
    condition = None if read is None else read.text
    conditional = arrow.guard is not None or (condition is not None and not arrow.qualifies)
    priority = default_priority(conditional=conditional) if arrow.priority is None else arrow.priority
    return Edge(
        id=prefix + stem_of(*arrow.ends, label, arrow.kind),
        source=arrow.source,
        target=arrow.target,
        label=label,
        priority=priority,
        condition=None if arrow.qualifies else condition,
        guard=arrow.guard,
        qualifies=condition if arrow.qualifies else None,
        provenance=provenance,
    )
