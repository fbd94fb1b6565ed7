"""Kinds of node that wait for a time or an event, and for no person."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from cronsim import CronSim

from assent.engine.inputs import EventArrived, Input, TimerDue
from assent.engine.nodes.base import Done, Failure, Handler, Rest, brought_by, deadline, timed_out
from assent.engine.programs import Values, program, template
from assent.language import Scope
from assent.language.values import as_time
from assent.model.graph import Node, NodeKind
from assent.model.mutation import Rejection
from assent.model.names import is_blank

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class WaitTimer(Handler):
    """Waits for a length of time, until a time, or for the next tick of a cron line."""

    kind = NodeKind.WAIT_TIMER

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._until = program(node.config.get("until"), scope)

    def enter(self, visit: "Visit") -> Rest | Done | Failure:
        due = self._due(visit)
        if due is None:
            return Failure("TIME_MISSING", f"`until` of `{self.node.name}` gave no time")
        return Done() if due <= visit.now else Rest(resume_at=due)

    def resume(self, visit: "Visit", incoming: Input) -> Done | Rejection:
        return Done() if isinstance(incoming, TimerDue) else super().resume(visit, incoming)  # type: ignore[return-value]

    def _due(self, visit: "Visit") -> datetime | None:
        config = self.node.config
        if "for" in config:
            return visit.now + timedelta(seconds=config["for"])
        if "cron" in config:
            return next(CronSim(config["cron"], visit.now))
        return _moment(self._until.value(visit.variables)) if self._until else None


def _moment(value: Any) -> datetime | None:
    """Return the time of a date or a time; a date begins at midnight in UTC, as in every expression."""
    found = as_time(value)
    return found if isinstance(found, datetime) else None


class WaitEvent(Handler):
    """Waits for an event under a key, such as `delivery:pod:{entity.shipment_id}`."""

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
        output = {"event": str(incoming.id), "data": incoming.data, **brought_by(incoming, sets)}
        if incoming.hops or visit.instance.context.get("_hops"):
            sets = {**sets, "_hops": incoming.hops}
        return Done(outcome, output, sets)
