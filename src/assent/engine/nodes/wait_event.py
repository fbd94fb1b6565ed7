"""Waits for an event under a key, such as `delivery:pod:{entity.shipment_id}`."""

from typing import TYPE_CHECKING

from assent.engine.inputs import EventArrived, Input, TimerDue
from assent.engine.nodes.awaiting import deadline, timed_out
from assent.engine.nodes.base import Done, Failure, Handler, Rest
from assent.engine.programs import Values, template
from assent.language import Scope
from assent.model.graph import Node, NodeKind
from assent.model.mutation import Rejection
from assent.model.names import is_blank

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class WaitEvent(Handler):
    kind = NodeKind.WAIT_EVENT

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._key = template(node.config["key"], scope)
        self._output = Values(node.config.get("output", {}), scope)

    def enter(self, visit: "Visit") -> Rest | Failure:
        key = str(self._key.value(visit.variables) or "")
        if is_blank(key):
            return Failure("KEY_MISSING", f"the key of `{self.node.name}` is blank: {key!r}")
        return Rest(resume_at=deadline(visit), event_key=key)

    def resume(self, visit: "Visit", incoming: Input) -> Done | Rejection:
        if isinstance(incoming, TimerDue):
            return timed_out()
        if not isinstance(incoming, EventArrived):
            return super().resume(visit, incoming)  # type: ignore[return-value]
        outcome = incoming.outcome if incoming.outcome in visit.node.answers else "completed"
        sets = self._output({**visit.variables, "result": incoming.data})
        return Done(outcome, {"event": str(incoming.id), "data": incoming.data}, sets)
