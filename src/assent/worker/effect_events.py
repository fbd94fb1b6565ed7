"""What the step that awaits an effect hears of its end."""

from datetime import datetime

from assent.effects.outcome import Delivered, EffectResult
from assent.model.graph import Outcome
from assent.model.mutation import Event
from assent.outbox.completions import completion_event


def answer_of(mark: EffectResult, now: datetime) -> Event:
    effect = mark.effect
    about = {name: getattr(effect, name) for name in ("org_id", "id", "instance_id", "step_id", "trace_id")}
    if isinstance(mark.outcome, Delivered):
        return completion_event(about, Outcome.COMPLETED, mark.outcome.result, now)
    return completion_event(about, Outcome.ERROR, {"code": mark.outcome.code, "message": mark.error}, now)
