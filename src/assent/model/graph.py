"""What graphs are made of: nodes, edges, and the slots between system nodes; and the envelope.

The envelope is the system graph that a contract generates, with the slots that orgs may fill.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from assent.model.contract import Contract, EditWindow

ENVELOPE: Final = "envelope"
"""The provenance of what the contract brought; patches' parts carry their slot's id, flows' carry `flow`."""
FLOW: Final = "flow"


class NodeKind(StrEnum):
    START = "start"
    END = "end"
    STATE = "state"
    LIFECYCLE_GATE = "lifecycle_gate"
    POLICY_GATE = "policy_gate"
    ACTION = "action"
    APPROVAL = "approval"
    FORM = "form"
    SYSTEM = "system"
    CONDITION = "condition"
    PARALLEL_SPLIT = "parallel_split"
    PARALLEL_JOIN = "parallel_join"
    WAIT_TIMER = "wait_timer"
    WAIT_EVENT = "wait_event"
    WEBHOOK_OUT = "webhook_out"
    NOTIFICATION = "notification"
    EMIT = "emit"
    SCRIPT = "script"
    RULE = "rule"
    REQUIREMENTS = "requirements"
    TASK = "task"
    SLOT = "slot"
    """The way into or out of a filled slot. Entered by an edge labelled `rejected` it ends with `rejected`, by any
    other with `completed`; gates do the same."""


class Outcome(StrEnum):
    """The labels that have a meaning of their own; a flow may add others."""

    COMPLETED = "completed"
    APPROVED = "approved"
    REJECTED = "rejected"
    DENIED = "denied"
    ERROR = "error"
    TIMEOUT = "timeout"
    PARTIAL = "partial"
    """Some of the results that were asked for have come, and no more is waited for."""
    NONE = "none"
    """No arrival at an ANY join qualified."""
    DRIFT = "drift"
    """The entity was edited where it should have rested."""


@dataclass(frozen=True, slots=True)
class Node:
    """A step of a workflow."""

    id: str
    kind: NodeKind
    name: str
    """What its author calls it: a short id, a state, a transition."""
    label: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """What this kind of node needs to know; expressions in canonical text, lengths of time in seconds."""
    timeout_seconds: int | None = None
    capabilities: tuple[str, ...] = ()
    """The capabilities that a person must hold to act on the step."""
    waives_approval: bool = False

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "kind": self.kind.value, "name": self.name}
        if self.label is not None:
            found["label"] = self.label
        if self.config:
            found["config"] = dict(self.config)
        if self.timeout_seconds is not None:
            found["timeout_seconds"] = self.timeout_seconds
        if self.capabilities:
            found["capabilities"] = list(self.capabilities)
        if self.waives_approval:
            found["waives_approval"] = True
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            data["id"],
            NodeKind(data["kind"]),
            data["name"],
            data.get("label"),
            data.get("config", {}),
            data.get("timeout_seconds"),
            tuple(data.get("capabilities", ())),
            data.get("waives_approval", False),
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow of a workflow, taken when its source ends with the outcome `label`."""

    id: str
    source: str
    target: str
    label: str
    priority: int
    """Lower is asked first; equal priorities are asked by id."""
    condition: str | None = None
    guard: str | None = None
    """The capability that the mover of the token must hold."""
    qualifies: str | None = None
    """For an inbound edge of an ANY join: what an arrival must fulfil to count. Not asked at the source."""
    provenance: str = ENVELOPE
    loop: bool = False
    """Crossing it gives the token a new generation."""
    leaves_slot: bool = False
    """A rejection on its way out: the slot's other tokens are cancelled."""

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)

    @property
    def order(self) -> tuple[int, str]:
        return self.priority, self.id

    @property
    def is_unconditional(self) -> bool:
        return self.condition is None and self.guard is None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": self.id,
            "source": self.source,
            "target": self.target,
            "label": self.label,
            "priority": self.priority,
            "provenance": self.provenance,
        }
        for key in ("condition", "guard", "qualifies"):
            if (value := getattr(self, key)) is not None:
                found[key] = value
        for key in ("loop", "leaves_slot"):
            if getattr(self, key):
                found[key] = True
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Slot:
    """A named gap between two system nodes that an org may fill."""

    id: str
    entry: str
    exit: str
    window: EditWindow
    """The edit window of what is in it; a patch may make it stricter."""
    stable: bool
    """Whether an edit while the token is inside leads to the amendment branch (WF-05)."""
    ends_in_gate: bool
    needs_approval: bool
    """Whether every way through must hold an approval, or a node that waives it."""
    enabled: bool = True
    filled: bool = False

    def evolve(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"window": self.window.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "window": EditWindow(data["window"])})


@dataclass(frozen=True, slots=True)
class Envelope:
    """Immutable; generating it again from the same contract gives the same bytes."""

    contract: Contract
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    slots: Mapping[str, Slot]
    amendment: str | None
    """The gate that an instance goes to when its entity is edited where it should have rested."""

    @property
    def entity_type(self) -> str:
        return self.contract.name

    @property
    def version(self) -> int:
        return self.contract.version

    def to_json(self) -> dict[str, Any]:
        return {
            "contract": self.contract.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "nodes": [node.to_json() for node in self.nodes.values()],
            "edges": [edge.to_json() for edge in self.edges.values()],
            "slots": [slot.to_json() for slot in self.slots.values()],
            "amendment": self.amendment,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            Contract.model_validate(data["contract"]),
            {node["id"]: Node.from_json(node) for node in data["nodes"]},
            {edge["id"]: Edge.from_json(edge) for edge in data["edges"]},
            {slot["id"]: Slot.from_json(slot) for slot in data["slots"]},
            data["amendment"],
        )
