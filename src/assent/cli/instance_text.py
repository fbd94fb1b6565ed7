"""Where an instance stands, for a person: what it waits for, whom it asks, and what stopped it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from assent.cli.report import console, print_json, safe
from assent.cli.shapes import instance_json
from assent.cli.tables import length, moment, one_line, print_table, status_text, table
from assent.runtime.view import InstanceView, Waiting
from assent.store.clock import SYSTEM_CLOCK

_ADVICE: Final[Mapping[str, str]] = {
    "PAUSED": "Somebody paused it. Resume it by POST /api/instances/{id}/resume, or cancel it.",
    "NO_APPROVERS": "See that there is somebody to ask, then run `assent dlq retry {id}`.",
    "NO_ASSIGNEE": "See that there is somebody to ask, then run `assent dlq retry {id}`.",
    "POLICY_DENIED": "Grant the right that is missing, then run `assent dlq retry {id}`.",
    "WORKFLOW_CHAIN_LIMIT": "It calls itself in a circle. Correct the workflow, then resume or cancel this instance.",
}
_DEFAULT_ADVICE: Final = "Correct the cause, then run `assent dlq retry {id}`."
_ENDED_ADVICE: Final = "It has ended, and nothing of it goes on. Start a new one when the cause is gone."


def print_done(said: str, view: InstanceView, *, json: bool) -> None:
    """What a command did, and where the instance stands now."""
    if json:
        print_json(instance_json(view))
        return
    out = console()
    out.print(Text("✓ ", "green").append(safe(said), "default"))
    out.print(Text("  ").append(status_text(view.status)).append(f"  {safe(view.workflow_id)}  {view.id}"))
    if view.waiting:
        print_table(waiting_table(view.waiting, SYSTEM_CLOCK.now()))
    for line in incident_lines(view.incident, view.status, view.id):
        out.print(line)


def waiting_table(waiting: Sequence[Waiting], now: datetime) -> Table:
    headings = ("  waits at", "kind", "asks", "waiting", "due", "request")
    return table(headings, ([f"  {one.name}", *_waiting_cells(one, now)] for one in waiting))


def _waiting_cells(one: Waiting, now: datetime) -> list[str | Text | None]:
    since = length(now - one.since) if one.since else ""
    answers = "" if one.request_id else f"answers: {', '.join(one.answers)}" if one.answers else ""
    due = Text(moment(one.due_at), "red" if one.due_at and one.due_at < now else "")
    return [one.kind, ", ".join(one.asked) or answers, since, due, str(one.request_id or "")]


def incident_lines(incident: Mapping[str, Any] | None, status: str, instance_id: Any) -> Iterator[Text]:
    """What stopped it, and what to do about it."""
    if not incident:
        return
    place = f" at {safe(str(incident['node']))}" if incident.get("node") else ""
    why = one_line(str(incident.get("message") or ""), 500)
    yield Text("  stopped: ", "red").append(f"{incident['code']}{place}: {safe(why)}", "default")
    yield Text("  to do:   ", "cyan").append(advice(str(incident["code"]), status, instance_id), "default")


def advice(code: str, status: str, instance_id: Any) -> str:
    if status != "paused":
        return _ENDED_ADVICE
    return _ADVICE.get(code, _DEFAULT_ADVICE).format(id=instance_id)
