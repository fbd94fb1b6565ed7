"""Steps that decide: conditions, rules, gates, splits and joins, and the script that sets what they ask."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from assent.model.graph import NodeKind, Outcome
from assent.model.nodes.base import Languages, NodeDeclaration
from assent.model.terms import Capability, Label, Language, Outputs, not_empty


class Condition(NodeDeclaration):
    """A choice; its edges carry the conditions."""

    kind = NodeKind.CONDITION
    type: Literal["condition"]


class Split(NodeDeclaration):
    kind = NodeKind.PARALLEL_SPLIT
    type: Literal["parallel_split"]


class Join(NodeDeclaration):
    kind = NodeKind.PARALLEL_JOIN
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.NONE})

    type: Literal["parallel_join"]
    mode: Literal["all", "any"] = "all"


class Script(NodeDeclaration):
    """Sets variables of the workflow; it calls nothing and writes no entity."""

    kind = NodeKind.SCRIPT
    languages: ClassVar[Languages] = {"set": Language.EXPRESSION}

    type: Literal["script"]
    set: Annotated[Outputs, AfterValidator(not_empty)]


class Rule(NodeDeclaration):
    """Asks a rule of the org."""

    kind = NodeKind.RULE
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.DENIED, Outcome.ERROR})

    type: Literal["rule"]
    rule: Label


class PolicyGate(NodeDeclaration):
    """Asks early whether the actor may do what comes later; the kernel asks again."""

    kind = NodeKind.POLICY_GATE
    outcomes_given = frozenset({Outcome.COMPLETED, Outcome.DENIED, Outcome.ERROR})

    type: Literal["policy_gate"]
    capability: Capability
