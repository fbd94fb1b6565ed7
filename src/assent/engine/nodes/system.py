"""A call of the application: a registered function, inside the transaction."""

from typing import TYPE_CHECKING, Any

from assent.engine.nodes.base import Call, Done, Failure, Handler
from assent.engine.programs import Values
from assent.language import Scope
from assent.model.graph import Node
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class System(Handler):
    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._input = Values(node.config.get("input", {}), scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> Call | Failure:
        name = self.node.config["operation"].get("sdk")
        if name is None or self.node.config.get("await"):
            return Failure("NODE_KIND_NOT_AVAILABLE", "calls over the network cannot be made yet")
        return Call(name, self._input(visit.variables))

    def answered(self, visit: "Visit", answer: Any) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        return Done(output={"result": answer}, sets=self._output({**visit.variables, "result": answer}))
