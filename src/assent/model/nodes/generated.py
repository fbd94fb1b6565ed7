"""Kinds of node that the compiler makes from contracts and flows; authors do not write them in patches."""

from assent.model.graph import NodeKind
from assent.model.nodes.base import NodeDeclaration, use_nothing


class StartNode(NodeDeclaration):
    """The way into a workflow."""

    kind = NodeKind.START
    uses = use_nothing
    in_patches = False
    shape = ("([", "])")
    kind_is_shown = False


class EndNode(NodeDeclaration):
    """The end of a token; flows write it as `end` or `terminal`."""

    kind = NodeKind.END
    uses = use_nothing
    in_patches = False
    shape = ("([", "])")
    kind_is_shown = False
    outcomes_given = frozenset()
    outcomes_required = frozenset()


class StateNode(NodeDeclaration):
    """A state, of an entity's lifecycle or of a flow, that a person's event leaves."""

    kind = NodeKind.STATE
    uses = use_nothing
    in_patches = False
    by_people = True
    shape = ("(", ")")
    kind_is_shown = False
    outcomes_given = frozenset()
    outcomes_open = True


class LifecycleGateNode(NodeDeclaration):
    """The change of an entity's lifecycle state."""

    kind = NodeKind.LIFECYCLE_GATE
    uses = use_nothing
    in_patches = False
    branches = True
    shape = ("{{", "}}")


class SlotNode(NodeDeclaration):
    """The way into or out of a filled slot."""

    kind = NodeKind.SLOT
    uses = use_nothing
    in_patches = False
    shape = ("((", "))")
    kind_is_shown = False
