"""One instance on a page: where it stands, what it waits for, what people answered, what happened."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from assent.cli.instance_text import advice, incident_lines, waiting_table
from assent.cli.report import console, safe
from assent.cli.shapes import entity_json, place_json, request_json, step_json, summary_json
from assent.cli.tables import Cell, length, moment, one_line, print_table, status_text, table
from assent.model.approval import ApprovalRequest, Decision
from assent.model.mutation import Entity
from assent.runtime.description import Description
from assent.store.rows import Row

_QUIET_KINDS: Final = frozenset({"slot"})
"""Steps in which nothing happens that an author knows of."""


@dataclass(frozen=True, slots=True)
class InstancePage:
    """What there is to see of an instance and its entity, at one moment."""

    now: datetime
    entity: Entity | None
    row: Row | None
    described: Description | None = None
    requests: Sequence[ApprovalRequest] = ()
    """The newest first."""

    def to_json(self) -> dict[str, Any]:
        return {
            "entity": entity_json(self.entity) if self.entity else None,
            "instance": self._instance_json(),
            "requests": [request_json(request) for request in self.requests],
        }

    def _instance_json(self) -> dict[str, Any] | None:
        if self.row is None or self.described is None:
            return None
        found, row = self.described, self.row
        names = found.node_names
        return summary_json(row) | {
            "name": found.name,
            "context": dict(found.view.context),
            "steps": [place_json(place) for place in found.places],
            "transitions": list(found.transitions),
            "timeline": [step_json(step, names.get(step["node_id"])) for step in found.timeline],
            "advice": advice(row["incident"]["code"], row["status"], row["id"]) if row["incident"] else None,
        }


def print_page(page: InstancePage) -> None:
    out = console()
    if page.entity is not None:
        out.print(_entity_line(page.entity))
    if page.row is None or page.described is None:
        out.print("No workflow has ever run for it.", style="dim")
        return
    for line in _head(page.row, page.now):
        out.print(line)
    if page.described.view.waiting:
        print_table(waiting_table(page.described.view.waiting, page.now))
    if could := _could(page.described):
        out.print(could)
    if page.requests:
        out.print("\nasked", style="bold")
        print_table(_requests(page.requests, page.described))
    out.print("\nhappened", style="bold")
    print_table(_timeline(page.described))


def _entity_line(entity: Entity) -> Text:
    text = Text(f"{safe(entity.type)} {entity.id}", "bold").append("  ")
    return text.append(
        f"{safe(entity.state)}, version {entity.version}, edits {entity.edit_window.value}", "default"
    )


def _head(row: Row, now: datetime) -> Iterator[Text]:
    version = f"{safe(row['workflow_id'])} {row['definition_version']}"
    yield Text(f"{version}  {row['id']}  ", "bold").append(status_text(row["status"]))
    ended = f"; ended {moment(row['completed_at'])}" if row["completed_at"] else ""
    expires = f"; time is over {moment(row['expires_at'])}" if row["expires_at"] and not ended else ""
    age = length(now - row["started_at"])
    yield Text(
        f"  started {moment(row['started_at'])} by {safe(row['subject_id'])}, {age} ago{ended}{expires}"
    )
    yield from incident_lines(row["incident"], row["status"], row["id"])


def _could(described: Description) -> Text | None:
    """What the reader could do about it now."""
    events = [
        f"{place.waiting.name}: {' | '.join(place.events)}" for place in described.places if place.events
    ]
    answers = {event for place in described.places for event in place.events}
    ways = [*events, *(f"transition: {name}" for name in described.transitions if name not in answers)]
    return Text("  you could  ", "cyan").append(safe("; ".join(ways)), "default") if ways else None


def _requests(requests: Sequence[ApprovalRequest], described: Description) -> Table:
    rows = [row for request in reversed(requests) for row in _request_rows(request, described)]
    return table(("  at", "step", "", "who", "why"), rows)


def _request_rows(request: ApprovalRequest, described: Description) -> Iterator[list[Cell]]:
    step = described.node_names.get(request.node_id, request.node_id)
    asked, later = (_names(request, status) for status in ("open", "later"))
    waits = f"asks {asked}" if asked else f"asked by {request.requested_by}"
    waits += f", later {later}" if later else ""
    why = request.reason or f"version {request.entity_version}" if request.entity_id else request.reason
    yield [f"  {moment(request.created_at)}", step, status_text(request.status), waits, why]
    for decision in request.decisions:
        yield [f"  {moment(decision.decided_at)}", "", _answer(decision), _who(decision), decision.reason]


def _names(request: ApprovalRequest, status: str) -> str:
    return ", ".join(sorted({seat.user_id for seat in request.seats if seat.status == status}))


def _answer(decision: Decision) -> Text:
    return status_text(decision.outcome or decision.answer)


def _who(decision: Decision) -> str:
    instead = f" for {decision.on_behalf_of}" if decision.on_behalf_of else ""
    return f"{decision.approver_id}{instead}"


def _timeline(described: Description) -> Table:
    told = [step for step in described.timeline if step["node_type"] not in _QUIET_KINDS]
    rows = [_step_cells(step_json(step, described.node_names.get(step["node_id"]))) for step in told]
    return table(("  at", "step", "kind", "", "who", "why"), rows)


def _step_cells(step: Row) -> list[Cell]:
    became = status_text(step["status"]) if step["status"] != "pending" else Text("waits", "yellow")
    if step["outcome"] and step["outcome"] != step["status"]:
        became = became.append(f" → {safe(step['outcome'])}", "default")
    at = moment(step["finished_at"] or step["at"])
    who = step["finished_by"] or step["actor"] or "system"
    name, why = step["step"].removeprefix("ctl:"), one_line(step["error"] or step["reason"])
    return [f"  {at}", name, step["kind"], became, who, why]
