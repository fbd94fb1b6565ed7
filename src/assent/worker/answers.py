"""What the step that awaits an effect hears of its end."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from assent.effects.outcome import Delivered, Mark
from assent.model.graph import Outcome
from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, Event

Row = Mapping[str, Any]


def answer_of(mark: Mark, now: datetime) -> Event:
    effect = mark.effect
    about = {name: getattr(effect, name) for name in ("org_id", "id", "instance_id", "step_id", "trace_id")}
    if isinstance(mark.outcome, Delivered):
        return answer_event(about, Outcome.COMPLETED, mark.outcome.result, now)
    return answer_event(about, Outcome.ERROR, {"code": mark.outcome.code, "message": mark.error}, now)


def answer_event(effect: Row, outcome: Outcome, data: Any, now: datetime) -> Event:
    """An event for the effect's instance; once, for an effect ends once."""
    news = {
        "cause": str(effect["id"]),
        "step": str(effect["step_id"]),
        "data": data,
        "outcome": outcome.value,
    }
    about = {"instance_id": effect["instance_id"], "trace_id": effect["trace_id"]}
    return Event(effect["org_id"], new_id(now), ON_EVENT, news, **about)
