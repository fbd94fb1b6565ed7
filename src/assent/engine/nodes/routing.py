"""Kinds of node that only choose the way of a token: conditions, splits, joins, slots, rules, policy gates, scripts."""

from typing import TYPE_CHECKING, Any

from assent.engine.nodes.base import Done, EvaluateRule, Failure, Handler, RuleVerdict
from assent.engine.programs import Values
from assent.language import Scope
from assent.model.graph import Node, NodeKind, Outcome
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class StartNode(Handler):
    """Ends as soon as it is entered."""

    kind = NodeKind.START


class EndNode(Handler):
    """Ends as soon as it is entered, and the token with it."""

    kind = NodeKind.END


class Condition(Handler):
    """Ends as soon as it is entered: its edges carry the conditions."""

    kind = NodeKind.CONDITION


class ParallelSplit(Handler):
    """Ends as soon as it is entered, and leaves by all its edges."""

    kind = NodeKind.PARALLEL_SPLIT


class ParallelJoin(Handler):
    """Entered once, by the token that was split, when enough others have arrived (`assent.engine.edges`).

    The outcome is `completed`, or `none` when every arrival at an ANY join was absorbed (D23).
    """

    kind = NodeKind.PARALLEL_JOIN

    def enter(self, visit: "Visit") -> Done:
        return Done(visit.token.carry)


class SlotNode(Handler):
    """The way into or out of a filled slot: passes a rejection on (D20); with any other outcome the token goes on."""

    kind = NodeKind.SLOT

    def enter(self, visit: "Visit") -> Done:
        rejected = visit.token.carry == Outcome.REJECTED
        return Done(Outcome.REJECTED if rejected else Outcome.COMPLETED)


class PolicyGate(Handler):
    """Checks early whether the actor may do what comes later; the kernel checks again (D29)."""

    kind = NodeKind.POLICY_GATE

    def enter(self, visit: "Visit") -> Done:
        capability = str(self.node.config["capability"])
        allowed = visit.actor.can(capability)
        output = {"capability": capability, "actor": visit.actor.id, "allowed": allowed}
        return Done(Outcome.COMPLETED if allowed else Outcome.DENIED, output)


class Rule(Handler):
    """Evaluates a rule of the org: `denied` if the rule denies, else `completed` with what it sets or emits."""

    kind = NodeKind.RULE

    def enter(self, visit: "Visit") -> EvaluateRule:
        return EvaluateRule(str(self.node.config["rule"]))

    def answered(self, visit: "Visit", answer: Any) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        assert isinstance(answer, RuleVerdict)
        output = {"rule": self.node.config["rule"], "evaluation": dict(answer.evaluation)}
        if answer.denial is not None:
            return Done(Outcome.DENIED, {**output, "message": answer.denial})
        if answer.event is None:
            return Done(Outcome.COMPLETED, output, answer.sets)
        return Done(Outcome.COMPLETED, {**output, "event_key": answer.event.key}, creates=(answer.event,))


class Script(Handler):
    """Sets variables of the workflow, and keeps why they have these values; it calls nothing and writes no entity."""

    kind = NodeKind.SCRIPT

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._values = Values(node.config["set"], scope)

    def enter(self, visit: "Visit") -> Done:
        sets, expressions = self._values.explained(visit.variables)
        return Done(output={"expressions": expressions} if expressions else {}, sets=sets)
