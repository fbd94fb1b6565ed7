"""The workflow: the compiled, hashed, frozen graph that the engine runs.

Envelopes with patches and flows end as this one value. It is made by `assent.compiler` only, survives JSON
unchanged, and answers every question of the hot path with one look-up.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from assent.model.canonical import canonical_hash
from assent.model.contract import EditWindow
from assent.model.graph import Edge, Node, Slot


@dataclass(frozen=True, slots=True)
class JoinRequirement:
    """What a join waits for."""

    split: str
    token_count: int
    mode: Literal["all", "any"]
    may_be_none: bool = False
    """Whether it can happen that no arrival qualifies (D23)."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GateIntegrity:
    """WF-08: which system nodes the envelope asks for, and which are there."""

    required: tuple[str, ...] = ()
    present: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return self.required == self.present

    def to_json(self) -> dict[str, Any]:
        return {"required": list(self.required), "present": list(self.present), "valid": self.is_valid}


@dataclass(frozen=True, slots=True)
class Expiry:
    """How long an instance may run, and where it goes when that is over; without a target it fails."""

    after_seconds: int
    target: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"after_seconds": self.after_seconds, "target": self.target}


@dataclass(frozen=True)
class Workflow:
    """A compiled graph. Mappings are ordered by key; two equal workflows have one hash."""

    kind: Literal["effective", "flow"]
    key: str
    """The entity type, or the flow's id."""
    version: int
    """Of the contract or of the flow."""
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    start: str
    topological_order: tuple[str, ...]
    edit_windows: Mapping[str, EditWindow]
    compiler_version: str
    name: str | None = None
    entity_type: str | None = None
    envelope_version: int | None = None
    stable_nodes: frozenset[str] = frozenset()
    slots: Mapping[str, Slot] = field(default_factory=dict)
    slot_map: Mapping[str, str] = field(default_factory=dict)
    """Node → the slot that it belongs to, or `envelope`, or `flow`."""
    joins: Mapping[str, JoinRequirement] = field(default_factory=dict)
    gate_integrity: GateIntegrity = field(default_factory=GateIntegrity)
    amendment: str | None = None
    """Where an instance goes on drift; without it, drift fails the instance with `WORKFLOW_VERSION_DRIFT`."""
    expiry: Expiry | None = None
    capabilities: tuple[str, ...] = ()
    """The capabilities to start it."""
    publish_capabilities: tuple[str, ...] = ()
    """What its publisher must hold, because of what its steps use and run as, and where it weakens approvals (D29)."""
    readers: tuple[str, ...] = ()
    """The roles that may read its instances, besides those who take part in them."""
    hash: str = ""
    adjacency: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    """Node → its outgoing edges' ids, in the order in which they are asked."""
    reverse_adjacency: Mapping[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)
    _outgoing: Mapping[str, tuple[Edge, ...]] = field(init=False, compare=False, repr=False)
    _answers: Mapping[tuple[str, str], tuple[Edge, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        outgoing: dict[str, list[Edge]] = {node: [] for node in self.nodes}
        inbound: dict[str, list[str]] = {node: [] for node in self.nodes}
        answers: dict[tuple[str, str], list[Edge]] = {}
        for edge in sorted(self.edges.values(), key=lambda edge: edge.order):
            outgoing[edge.source].append(edge)
            answers.setdefault((edge.source, edge.label), []).append(edge)
            inbound[edge.target].append(edge.id)
        self._derive("_outgoing", {node: tuple(edges) for node, edges in outgoing.items()})
        self._derive("_answers", {key: tuple(edges) for key, edges in answers.items()})
        self._derive("adjacency", {node: tuple(e.id for e in edges) for node, edges in outgoing.items()})
        self._derive("reverse_adjacency", {node: tuple(sorted(ids)) for node, ids in inbound.items()})

    def _derive(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def outgoing(self, node_id: str) -> tuple[Edge, ...]:
        """Return the edges that leave a node, in the order in which they are asked."""
        return self._outgoing[node_id]

    def answers(self, node_id: str, outcome: str) -> tuple[Edge, ...]:
        """Return the edges that answer an outcome of a node, in the order in which they are asked."""
        return self._answers.get((node_id, outcome), ())

    def inbound(self, node_id: str) -> tuple[Edge, ...]:
        return tuple(self.edges[edge_id] for edge_id in self.reverse_adjacency[node_id])

    def window(self, node_id: str) -> EditWindow:
        return self.edit_windows[node_id]

    def content(self) -> dict[str, Any]:
        """Return everything that the hash covers, as JSON."""
        return {
            "kind": self.kind,
            "key": self.key,
            "name": self.name,
            "version": self.version,
            "entity_type": self.entity_type,
            "envelope_version": self.envelope_version,
            "compiler_version": self.compiler_version,
            "start": self.start,
            "nodes": [node.to_json() for node in self.nodes.values()],
            "edges": {edge.id: edge.to_json() for edge in self.edges.values()},
            "adjacency": {node: list(ids) for node, ids in self.adjacency.items()},
            "reverse_adjacency": {node: list(ids) for node, ids in self.reverse_adjacency.items()},
            "topological_order": list(self.topological_order),
            "joins": {node: join.to_json() for node, join in self.joins.items()},
            "edit_windows": {node: window.value for node, window in self.edit_windows.items()},
            "stable_nodes": sorted(self.stable_nodes),
            "slots": {slot.id: slot.to_json() for slot in self.slots.values()},
            "slot_map": dict(self.slot_map),
            "gate_integrity": self.gate_integrity.to_json(),
            "amendment": self.amendment,
            "expiry": self.expiry.to_json() if self.expiry else None,
            "capabilities": list(self.capabilities),
            "publish_capabilities": list(self.publish_capabilities),
            # Only where it is said, so that what was compiled before has the hash that it had.
            **({"permissions": {"read": list(self.readers)}} if self.readers else {}),
        }

    def content_hash(self) -> str:
        """SHA-256 of the content; equals `hash` unless one of them was changed (WF-07)."""
        return canonical_hash(self.content())

    def to_json(self) -> dict[str, Any]:
        return self.content() | {"hash": self.hash}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the workflow that `to_json` gave; adjacency is derived again, so `content_hash` also checks it.

        Keys are put in order again, because jsonb keeps an order of its own.
        """
        integrity, expiry = data["gate_integrity"], data["expiry"]
        return cls(
            kind=data["kind"],
            key=data["key"],
            name=data["name"],
            version=data["version"],
            entity_type=data["entity_type"],
            envelope_version=data["envelope_version"],
            compiler_version=data["compiler_version"],
            start=data["start"],
            nodes={node["id"]: Node.from_json(node) for node in data["nodes"]},
            edges={key: Edge.from_json(edge) for key, edge in sorted(data["edges"].items())},
            topological_order=tuple(data["topological_order"]),
            joins={key: JoinRequirement(**join) for key, join in sorted(data["joins"].items())},
            edit_windows={key: EditWindow(window) for key, window in sorted(data["edit_windows"].items())},
            stable_nodes=frozenset(data["stable_nodes"]),
            slots={key: Slot.from_json(slot) for key, slot in sorted(data["slots"].items())},
            slot_map=dict(sorted(data["slot_map"].items())),
            gate_integrity=GateIntegrity(tuple(integrity["required"]), tuple(integrity["present"])),
            amendment=data["amendment"],
            expiry=Expiry(**expiry) if expiry else None,
            capabilities=tuple(data["capabilities"]),
            publish_capabilities=tuple(data["publish_capabilities"]),
            readers=tuple(data.get("permissions", {}).get("read", ())),
            hash=data["hash"],
        )
