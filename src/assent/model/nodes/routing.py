"""Steps that choose the way: conditions, rules, policy gates, splits, joins, and scripts that set variables.

Starts, ends, states, gates and slots are made by the compiler from contracts and flows; authors do not write them in
patches.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from assent.model.graph import NodeKind, Outcome
from assent.model.nodes.base import Languages, NodeDeclaration, use_nothing
from assent.model.terms import Capability, Label, Language, Outputs, not_empty


class Condition(NodeDeclaration):
    """A choice; its edges carry the conditions."""

    kind = NodeKind.CONDITION
    uses = use_nothing
    branches = True
    shape = ("{", "}")

    type: Literal["condition"]


class Split(NodeDeclaration):
    kind = NodeKind.PARALLEL_SPLIT
    uses = use_nothing

    type: Literal["parallel_split"]


class Join(NodeDeclaration):
    kind = NodeKind.PARALLEL_JOIN
    uses = use_nothing
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.NONE})

    type: Literal["parallel_join"]
    mode: Literal["all", "any"] = "all"


class Script(NodeDeclaration):
    """Sets variables of the workflow; it calls nothing and writes no entity."""

    kind = NodeKind.SCRIPT
    uses = use_nothing
    languages: ClassVar[Languages] = {"set": Language.EXPRESSION}

    type: Literal["script"]
    set: Annotated[Outputs, AfterValidator(not_empty)]


class Rule(NodeDeclaration):
    """Evaluates a rule of the org."""

    kind = NodeKind.RULE
    uses = use_nothing
    branches = True
    shape = ("{", "}")
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.DENIED, Outcome.ERROR})

    type: Literal["rule"]
    rule: Label


class PolicyGate(NodeDeclaration):
    """Checks early whether the actor may do what comes later; the kernel checks again."""

    kind = NodeKind.POLICY_GATE
    uses = use_nothing
    shape = ("{{", "}}")
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.DENIED, Outcome.ERROR})

    type: Literal["policy_gate"]
    capability: Capability


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
