"""The only place where an entity's lifecycle state changes (D4): through the kernel, as the instance's own write."""

from typing import TYPE_CHECKING, ClassVar

from assent.engine.choose import choose
from assent.engine.nodes.action import receipt_of
from assent.engine.nodes.base import Done, Failure, Handler, Mutate
from assent.model.graph import Outcome
from assent.model.mutation import Mutation, Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class LifecycleGate(Handler):
    """Makes its transition; a token that comes with a rejection leads back to where the contract says."""

    is_branch: ClassVar[bool] = True

    def enter(self, visit: "Visit") -> Done | Mutate | Failure:
        entity = visit.world.entity
        if entity is None:
            return Failure("ENTITY_MISSING", f"gate `{self.node.name}` needs an entity")
        target = self._target(visit)
        if target is None or target == entity.state:
            return Done(self._outcome(visit))
        transition = str(self.node.config["transition"])
        return Mutate(f"{entity.type}.transition", {"transition": transition}, grant=True, to_state=target)

    def answered(self, visit: "Visit", answer: Mutation | Rejection) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        entity = answer.entity
        output = {"mutation": receipt_of(answer), "entity_version": entity.version, "state": entity.state}
        return Done(self._outcome(visit), output)

    def _outcome(self, visit: "Visit") -> str:
        rejected = visit.token.carry == Outcome.REJECTED and Outcome.REJECTED in visit.node.answers
        return Outcome.REJECTED if rejected else Outcome.COMPLETED

    def _target(self, visit: "Visit") -> str | None:
        """The state that comes next; none when a rejection leaves the entity where it is."""
        if self._outcome(visit) == Outcome.COMPLETED:
            return str(self.node.config["to"])
        edge, _ = choose(visit, Outcome.REJECTED, visit.variables)
        node = visit.plan.nodes[edge.target].node if edge else None
        return node.config.get("state") if node else None
