"""The way into or out of a filled slot."""

from typing import TYPE_CHECKING

from assent.engine.nodes.base import Done, Handler

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Slot(Handler):
    """Passes on the outcome that the token came with: a rejection goes through as a rejection (D20)."""

    def enter(self, visit: "Visit") -> Done:
        return Done(visit.token.carry)
