"""What steps that await an effect have in common: how they rest, and what its answer means to them (D30)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assent.engine.inputs import EventArrived, Input, TimerDue
from assent.engine.nodes.base import Done, Failure, Rest
from assent.engine.nodes.waiting import deadline, timed_out
from assent.engine.programs import Values
from assent.model.effect import Effect
from assent.model.graph import Outcome

if TYPE_CHECKING:
    from assent.engine.visit import Visit


def may_retry_ambiguous(config: Mapping[str, Any], otherwise: bool = True) -> bool:
    """Whether what may have arrived is sent again: as the node says, or as is right for such a call."""
    said = config.get("on_ambiguous")
    return otherwise if said is None else said == "retry"


def rest_until_answered(visit: "Visit", effect: Effect) -> Rest:
    return Rest(resume_at=deadline(visit), creates=(effect,))


def read_answer(visit: "Visit", given: Input, output: Values) -> Done | Failure | None:
    """What the effect's answer makes of the step; none where something else came."""
    if isinstance(given, TimerDue):
        return timed_out()
    if not isinstance(given, EventArrived):
        return None
    if given.outcome == Outcome.ERROR:
        return Failure(given.data["code"], given.data["message"])
    return done_with(visit, given.data, output)


def done_with(visit: "Visit", result: Any, output: Values) -> Done:
    return Done(output={"result": result}, sets=output({**visit.variables, "result": result}))
