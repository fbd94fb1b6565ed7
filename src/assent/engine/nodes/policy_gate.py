"""Asks early whether the actor may do what comes later; the kernel asks again (D29)."""

from typing import TYPE_CHECKING, ClassVar

from assent.engine.nodes.base import Done, Handler
from assent.model.graph import Outcome

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class PolicyGate(Handler):
    is_branch: ClassVar[bool] = True

    def enter(self, visit: "Visit") -> Done:
        capability = str(self.node.config["capability"])
        allowed = visit.actor.can(capability)
        output = {"capability": capability, "actor": visit.actor.id, "allowed": allowed}
        return Done(Outcome.COMPLETED if allowed else Outcome.DENIED, output)
