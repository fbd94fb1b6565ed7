"""Emits an event under a key, such as `order:paid:{workflow.order_id}`, for the steps that wait for it."""

from typing import TYPE_CHECKING, Any

from assent.engine.nodes.base import CheckEventKey, Done, Failure, Handler
from assent.engine.programs import Payload, template
from assent.language import Scope
from assent.model.graph import Node, NodeKind
from assent.model.mutation import KeyedEvent, Refused, Rejection
from assent.model.names import require_name

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Emit(Handler):
    """Ends at once; the event is written with the step, once for the key of the step.

    A key that a source of signed events owns is refused: such events come with the signature of the source.
    """

    kind = NodeKind.EMIT

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._key = template(node.config["key"], scope)
        self._data = Payload(node.config.get("data"), scope)

    def enter(self, visit: "Visit") -> CheckEventKey | Failure:
        key = self._event_key(visit)
        try:
            require_name(key, "key", length_max=KeyedEvent.KEY_CHARACTERS_MAX)
        except Refused as refused:
            message = f"the key of `{self.node.name}` cannot be used: {refused.rejection.message}"
            return Failure("KEY_MISSING" if refused.rejection.code == "BLANK" else "KEY_UNUSABLE", message)
        return CheckEventKey(key)

    def answered(self, visit: "Visit", answer: Any) -> Done | Failure:
        if isinstance(answer, Rejection):
            return Failure(answer.code, str(answer))
        key = self._event_key(visit)
        event = KeyedEvent(key, self._data(visit.variables))
        return Done(output={"event_key": key}, creates=(event,))

    def _event_key(self, visit: "Visit") -> str:
        return str(self._key.value(visit.variables) or "")
