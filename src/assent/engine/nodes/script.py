"""Sets variables of the workflow; it calls nothing and writes no entity."""

from typing import TYPE_CHECKING

from assent.engine.nodes.base import Done, Handler
from assent.engine.programs import Values
from assent.language import Scope
from assent.model.graph import Node

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Script(Handler):
    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._values = Values(node.config["set"], scope)

    def enter(self, visit: "Visit") -> Done:
        return Done(sets=self._values(visit.variables))
