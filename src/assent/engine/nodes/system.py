"""A call of the application or, over HTTP, of a service that it registered.

A registered function runs inside the transaction. What cannot, the application says when it is called: then the
effects worker does it, and the token rests until the answer is there.
"""

from typing import TYPE_CHECKING, Any

from assent.engine.inputs import Input
from assent.engine.nodes.awaiting import done_with, may_retry_ambiguous, read_answer, rest_until_answered
from assent.engine.nodes.base import Call, Done, Failure, Handler, Rest, Verdict
from assent.engine.programs import Values
from assent.language import Scope
from assent.model.effect import Effect, OutsideWork, openapi_name
from assent.model.graph import Node, NodeKind
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class System(Handler):
    kind = NodeKind.SYSTEM

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        operation = node.config["operation"]
        self._name = operation["sdk"] if "sdk" in operation else openapi_name(operation["openapi"])
        self._input = Values(node.config.get("input", {}), scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> Call:
        return Call(self._name, self._input(visit.variables))

    def answered(self, visit: "Visit", answer: Any) -> Done | Rest | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, answer.message)
        if isinstance(answer, OutsideWork):
            again = may_retry_ambiguous(self.node.config, answer.retry_ambiguous)
            effect = Effect("integration", answer.payload, awaited=True, retry_ambiguous=again)
            return rest_until_answered(visit, effect)
        return done_with(visit, answer, self._output)

    def resume(self, visit: "Visit", incoming: Input) -> Verdict | Rejection:
        answer = read_answer(visit, incoming, self._output)
        return super().resume(visit, incoming) if answer is None else answer
