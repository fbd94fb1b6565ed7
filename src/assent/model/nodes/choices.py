"""Steps that choose the way: conditions, rules, policy gates, splits, joins, and scripts that set variables."""

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
