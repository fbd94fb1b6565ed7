"""How long people may take: reminders, the escalation, the end. Computed from when they were asked, kept nowhere."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from assent.engine.nodes.waiting import deadline
from assent.model.approval import ESCALATION, Seat, Seated
from assent.model.graph import Node

if TYPE_CHECKING:
    from assent.engine.visit import Visit


class Deadlines:
    def __init__(self, node: Node) -> None:
        config = node.config
        self._remind = timedelta(seconds=config["remind"]) if "remind" in config else None
        self._escalate = timedelta(seconds=config["escalate"]["after"]) if "escalate" in config else None

    def is_over(self, visit: "Visit", request: Seated) -> bool:
        end = deadline(visit, request.created_at)
        return end is not None and visit.now >= end

    def escalated(self, visit: "Visit", request: Seated) -> list[Seat]:
        """Those who are asked from now on, because the others have not answered."""
        if self._escalate is None or visit.now < request.created_at + self._escalate:
            return []
        return [seat for seat in request.seats_of(ESCALATION) if seat.status == "later"]

    def reminded(self, visit: "Visit", request: Seated) -> list[Seat]:
        if self._remind is None or visit.now < request.created_at + self._remind:
            return []
        return [seat for seat in request.seats if seat.status == "open"]

    def round(self, visit: "Visit", request: Seated) -> int:
        """Return how many rounds of reminders were due by now."""
        return (visit.now - request.created_at) // self._remind if self._remind else 0

    def next_time(self, visit: "Visit", request: Seated) -> datetime | None:
        """The next moment at which something is due; what was missed meanwhile is not made up for."""
        times = [deadline(visit, request.created_at)]
        if self._escalate and any(seat.status == "later" for seat in request.seats_of(ESCALATION)):
            times.append(request.created_at + self._escalate)
        if self._remind:
            times.append(request.created_at + (self.round(visit, request) + 1) * self._remind)
        return min((time for time in times if time is not None), default=None)
