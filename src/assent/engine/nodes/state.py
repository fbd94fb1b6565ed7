"""A lifecycle state of the entity: the token rests until a person requests a transition."""

from typing import TYPE_CHECKING

from assent.engine.edges import guard_against
from assent.engine.inputs import Advance, Input
from assent.engine.nodes.base import Done, Handler, Rest
from assent.model.graph import NodeKind
from assent.model.mutation import Rejection
from assent.model.policy import check_policy

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class StateNode(Handler):
    """Goes on by itself where the graph says so, else rests."""

    kind = NodeKind.STATE

    def enter(self, visit: "Visit") -> Done | Rest:
        return Done() if "completed" in visit.node.answers else Rest()

    def resume(self, visit: "Visit", incoming: Input) -> Done | Rejection:
        if not isinstance(incoming, Advance) or incoming.event not in visit.node.answers:
            known = ", ".join(sorted(visit.node.answers)) or "nothing"
            event = getattr(incoming, "event", type(incoming).__name__)
            message = f"`{event}` is not possible in state {self.node.name}; possible: {known}"
            return Rejection("INVALID_TRANSITION", message, ("event",))
        contract = visit.plan.contract
        if contract is not None and (denied := check_policy(contract, incoming.event, visit.actor)):
            return denied
        if denied := guard_against(visit, incoming.event):
            return denied
        return Done(incoming.event, {"command": incoming.event}, dict(incoming.data))
