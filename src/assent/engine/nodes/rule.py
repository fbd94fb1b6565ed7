"""Asks a rule of the org: `denied` when it denies, else `completed` with what it sets."""

from typing import TYPE_CHECKING, Any, ClassVar

from assent.engine.nodes.base import Done, EvaluateRule, Failure, Handler
from assent.model.graph import Outcome
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Rule(Handler):
    is_branch: ClassVar[bool] = True

    def enter(self, visit: "Visit") -> EvaluateRule:
        return EvaluateRule(str(self.node.config["rule"]))

    def answered(self, visit: "Visit", answer: Any) -> Done | Failure:
        if isinstance(answer, Rejection) and answer.code != "RULE_DENIED":
            return Failure(answer.code, answer.message)
        if isinstance(answer, Rejection):
            return Done(Outcome.DENIED, {"rule": self.node.config["rule"], "message": answer.message})
        return Done(Outcome.COMPLETED, {"rule": self.node.config["rule"]}, answer)
