"""Steps that wait: their time limit, and the effects that they await (D30)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from assent.engine.inputs import EventArrived, Input, TimerDue
from assent.engine.nodes.base import Done, Failure, Rest
from assent.engine.programs import Values
from assent.model.effect import Effect
from assent.model.graph import Outcome

if TYPE_CHECKING:
    from assent.engine.visit import Visit


def deadline(visit: "Visit", since: datetime | None = None) -> datetime | None:
    """Return when the time of the step is over, counted from now or from `since`; None without a time limit."""
    seconds = visit.node.node.timeout_seconds
    return (since or visit.now) + timedelta(seconds=seconds) if seconds is not None else None


def timed_out() -> Done:
    return Done(Outcome.TIMEOUT, {"timed_out": True})


def may_retry_ambiguous(config: Mapping[str, Any], otherwise: bool = True) -> bool:
    """Return whether to send again what may have arrived: as the node says, or as is right for such a call."""
    said = config.get("on_ambiguous")
    return otherwise if said is None else said == "retry"


def rest_until_answered(visit: "Visit", effect: Effect) -> Rest:
    return Rest(resume_at=deadline(visit), creates=(effect,))


def read_answer(visit: "Visit", incoming: Input, output: Values) -> Done | Failure | None:
    """Return the verdict of a step whose effect has ended; None for any other input."""
    if isinstance(incoming, TimerDue):
        return timed_out()
    if not isinstance(incoming, EventArrived):
        return None
    if incoming.outcome == Outcome.ERROR:
        return Failure(incoming.data["code"], incoming.data["message"])
    return done_with(visit, incoming.data, output)


def done_with(visit: "Visit", result: Any, output: Values) -> Done:
    return Done(output={"result": result}, sets=output({**visit.variables, "result": result}))
