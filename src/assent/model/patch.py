"""The patch: an org's nodes and edges for the slots of an envelope; and what patches and flows share.

A graph declares nodes with their `type`, and a problem of a node leads to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, Union

from pydantic import Discriminator, Field, Tag

from assent.model.canonical import NotCanonical, require_canonical
from assent.model.contract import EditWindow, Name, Version
from assent.model.nodes import KINDS, NodeDeclaration, NodeRef
from assent.model.parse import Declaration, parse_declaration
from assent.model.problems import Problem
from assent.model.terms import Capability
from assent.model.terms import Condition as ConditionText

D = TypeVar("D", bound=Declaration)


def parse_graph(kind: type[D], data: object) -> tuple[D | None, list[Problem]]:
    """`data` as a patch or a flow, or every problem of its form."""
    try:
        require_canonical(data)
    except NotCanonical as error:
        return None, [Problem(error.code, str(error), error.path)]
    declared, problems = parse_declaration(kind, data)
    return declared, [_at_type(problem) for problem in problems]


def _at_type(problem: Problem) -> Problem:
    return replace(problem, path=(*problem.path, "type")) if problem.code == "UNKNOWN_KIND" else problem


def type_of(value: Any) -> str | None:
    """Return the `type` of a node, of data or declared."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


def one_of(kinds: Mapping[str, type[NodeDeclaration]], kind_of: Callable[[Any], str | None] = type_of) -> Any:
    """Return the type of a node whose kind is a key of `kinds`."""
    # Tags stand in brackets, because `assent.model.parse` takes bracketed parts out of a problem's path.
    members = tuple(Annotated[kind, Tag(f"[{name}]")] for name, kind in kinds.items())
    discriminator = Discriminator(
        lambda value: f"[{kind_of(value)}]",
        custom_error_type="UNKNOWN_KIND",
        custom_error_message="`type` names the kind of a node, one of: {known}",
        custom_error_context={"known": ", ".join(name for name in sorted(kinds) if " " not in name)},
    )
    return Annotated[Union[members], discriminator]  # noqa: UP007 - the members are only known here


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
    """Return the patch in `data`, or every problem of its form."""
    return parse_graph(Patch, data)
