"""The envelope: the system graph that a contract generates, with the slots that orgs may fill."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from assent.model.contract import Contract
from assent.model.graph import Edge, Node, Slot


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
