"""A workflow while it is compiled: the value that passes take and return.

Every node and edge knows the place in its author's source, so that a problem can be shown there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from assent.language import Expression
from assent.model.contract import Contract, EditWindow
from assent.model.flow import Flow
from assent.model.graph import Edge, Envelope, Node, Slot
from assent.model.nodes import NodeDeclaration, Timed
from assent.model.patch import SlotPatch
from assent.model.problems import Path, Problem
from assent.model.terms import seconds_of
from assent.model.workflow import JoinRequirement

Branches = tuple[tuple[str, str], ...]
"""(split, edge that left it), outermost first."""


@dataclass(frozen=True, slots=True)
class ParsedCondition:
    """A condition that was read, and where it stands."""

    text: str
    """Canonical, where it could be read."""
    path: Path
    expression: Expression | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Filling:
    """What a patch puts into one slot, once its ids are known to belong there."""

    slot: Slot
    patch: SlotPatch
    path: Path
    ids: Mapping[str, str]
    """What the author calls a node → its id in the workflow; `in` and `out` are the slot's proxies."""


@dataclass(frozen=True, slots=True)
class WorkflowDraft:
    envelope: Envelope | None = None
    flow: Flow | None = None
    contract: Contract | None = None
    """Whose fields the expressions may name."""
    fillings: tuple[Filling, ...] = ()
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    start: str = "sys:start"
    slots: dict[str, Slot] = field(default_factory=dict)
    slot_map: dict[str, str] = field(default_factory=dict)
    declared: dict[str, NodeDeclaration] = field(default_factory=dict)
    """Node id → what its author wrote; system nodes have none."""
    conditions: dict[str, ParsedCondition] = field(default_factory=dict)
    """Edge id → the condition that its author wrote."""
    places: dict[str, Path] = field(default_factory=dict)
    """Id of a node or an edge → where its author wrote it."""
    windows: dict[str, EditWindow] = field(default_factory=dict)
    stable: frozenset[str] = frozenset()
    joins: dict[str, JoinRequirement] = field(default_factory=dict)
    branches: dict[str, Branches] = field(default_factory=dict)
    """Node → the branches of splits that it lies in."""
    order: tuple[str, ...] = ()
    publish_capabilities: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    torn: bool = False
    """Whether edges lead nowhere; passes that follow them would complain of mere consequences."""
    knotted: bool = False
    """Whether the graph has no order, or its blocks do not nest; passes that walk in order cannot."""

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def noting(self, problems: Iterable[Problem]) -> Self:
        return replace(self, problems=(*self.problems, *problems))

    def place(self, key: str) -> Path:
        return self.places.get(key, ())

    def outgoing(self) -> dict[str, list[Edge]]:
        """Node → its edges in the order in which they are asked."""
        found: dict[str, list[Edge]] = {node: [] for node in self.nodes}
        for edge in sorted(self.edges, key=lambda edge: edge.order):
            found[edge.source].append(edge)
        return found

    def inbound(self) -> dict[str, list[Edge]]:
        found: dict[str, list[Edge]] = {node: [] for node in self.nodes}
        for edge in sorted(self.edges, key=lambda edge: edge.id):
            found[edge.target].append(edge)
        return found

    @property
    def is_walkable(self) -> bool:
        return not self.torn and not self.knotted

    def called(self, node_id: str) -> str:
        """Return a node as its author knows it."""
        return self.nodes[node_id].name


Pass = Callable[[WorkflowDraft], WorkflowDraft]


def run_passes(draft: WorkflowDraft, passes: Sequence[Pass]) -> WorkflowDraft:
    for step in passes:
        draft = step(draft)
    return draft


def node_of(declared: NodeDeclaration, node_id: str, name: str) -> Node:
    timeout = declared.timeout if isinstance(declared, Timed) else None
    return Node(
        id=node_id,
        kind=declared.node_kind,
        name=name,
        label=declared.label,
        config=declared.config(),
        timeout_seconds=seconds_of(timeout) if timeout else None,
        capabilities=tuple(sorted(set(declared.capabilities))),
        waives_approval=declared.waives_approval,
    )


def on_timeout(declared: NodeDeclaration) -> str | None:
    return declared.on_timeout if isinstance(declared, Timed) else None
