"""What nodes that may run out of time have in common."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from assent.engine.nodes.base import Done
from assent.model.graph import Outcome

if TYPE_CHECKING:
    from assent.engine.visit import Visit


def deadline(visit: "Visit", since: datetime | None = None) -> datetime | None:
    """When the step's own time is over, from now or from when it began; never when it has none."""
    seconds = visit.node.node.timeout_seconds
    return (since or visit.now) + timedelta(seconds=seconds) if seconds is not None else None


def timed_out() -> Done:
    return Done(Outcome.TIMEOUT, {"timed_out": True})
