"""Where the tokens of a split come together."""

from typing import TYPE_CHECKING

from assent.engine.nodes.base import Done, Handler

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class ParallelJoin(Handler):
    """Entered once, by the token that was split, when enough others have arrived (`assent.engine.joins`).

    The outcome is `completed`, or `none` when every arrival at an ANY join was absorbed (D23).
    """

    def enter(self, visit: "Visit") -> Done:
        return Done(visit.token.carry)
