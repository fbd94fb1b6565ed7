"""The patch: an org's nodes and edges for the slots of an envelope."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from assent.model.contract import EditWindow, Name, Version
from assent.model.kinds import one_of, parse_graph
from assent.model.nodes import KINDS, NodeDeclaration, NodeRef
from assent.model.parse import Declaration
from assent.model.problems import Problem
from assent.model.terms import Capability
from assent.model.terms import Condition as ConditionText

IN: Final = "in"
OUT: Final = "out"

NODES_MAX: Final = 2_000
EDGES_MAX: Final = 8_000
PRIORITY_MAX: Final = 10_000

PATCH_KINDS: Final[Mapping[str, type[NodeDeclaration]]] = {
    kind.value: declared for kind, declared in sorted(KINDS.items()) if declared.in_patches
}
if TYPE_CHECKING:
    PatchNode = NodeDeclaration
else:
    PatchNode = one_of(PATCH_KINDS)


class PatchEdge(Declaration):
    from_: NodeRef = Field(alias="from")
    to: NodeRef
    on: Name | None = None
    """The outcome that it answers; by default `approved` of an approval and `completed` of all else."""
    when: ConditionText = None
    guard: Capability | None = None
    priority: int | None = Field(default=None, ge=0, le=PRIORITY_MAX)


class SlotPatch(Declaration):
    """What fills one slot."""

    nodes: tuple[PatchNode, ...] = Field(default=(), max_length=NODES_MAX)
    edges: tuple[PatchEdge, ...] = Field(default=(), max_length=EDGES_MAX)
    entry: Literal["serial", "branch"] | None = None
    """`serial`: one way in; `branch`: a choice of several. By default whatever the edges say."""
    exit: Literal["single", "join"] | None = None
    """`single`: one way out; `join`: several that exclude each other."""
    edit: EditWindow | None = None
    """A stricter edit window than the slot's."""

    @property
    def is_empty(self) -> bool:
        return not self.nodes and not self.edges


class Base(Declaration):
    entity_type: Name
    envelope_version: Version


class Patch(Declaration):
    patch: Name
    version: Version = 1
    label: str | None = None
    base: Base
    slots: Mapping[str, SlotPatch] = {}


def parse_patch(data: object) -> tuple[Patch | None, list[Problem]]:
    """The patch in `data`, or every problem of its form."""
    return parse_graph(Patch, data)
