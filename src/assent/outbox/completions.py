"""What a step that awaits something hears of its end: an effect's, a task's."""

from datetime import datetime
from typing import Any

from assent.model.graph import Outcome
from assent.model.ids import new_id
from assent.model.mutation import ON_EVENT, Event
from assent.store.rows import Row


def completion_event(awaited: Row, outcome: Outcome, data: Any, now: datetime) -> Event:
    """An event for the instance of what was awaited; once, for it ends once."""
    news = {
        "cause": str(awaited["id"]),
        "step": str(awaited["step_id"]),
        "data": data,
        "outcome": outcome.value,
    }
    about = {"instance_id": awaited["instance_id"], "trace_id": awaited["trace_id"]}
    return Event(awaited["org_id"], new_id(now), ON_EVENT, news, **about)
