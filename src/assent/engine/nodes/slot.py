"""The way into or out of a filled slot."""

from typing import TYPE_CHECKING

from assent.engine.nodes.base import Done, Handler
from assent.model.graph import Outcome

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Slot(Handler):
    """Passes a rejection on as a rejection (D20); whatever else the token came with, it goes on."""

    def enter(self, visit: "Visit") -> Done:
        rejected = visit.token.carry == Outcome.REJECTED
        return Done(Outcome.REJECTED if rejected else Outcome.COMPLETED)
