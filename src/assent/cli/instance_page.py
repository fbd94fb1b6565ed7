"""One instance for a person: where it stands, what it waits for, what people answered, what happened."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from rich.table import Table
from rich.text import Text

from assent.approvals.requests import ApprovalDetails, requests_of_instance
from assent.bodies.body import ResponseModel
from assent.bodies.instances import ApprovalBody, Descriptor, EntityBody, InstanceBody, TimelineStep
from assent.cli.options import GivenId
from assent.cli.output import (
    Cell,
    console,
    length,
    moment,
    one_line,
    print_body,
    print_table,
    safe,
    status_text,
    table,
)
from assent.cli.session import ActorSession, CommandTarget, find_meant
from assent.kernel.entities import read_entity
from assent.model.approval import ApprovalRequest, Decision
from assent.model.mutation import Entity
from assent.runtime.readers import Description, describe
from assent.runtime.views import InstanceFilter, InstanceView, Waiting, find_instance, list_instances
from assent.store.clock import SYSTEM_CLOCK
from assent.store.database import Connection
from assent.store.rows import Row

_ADVICE: Final[Mapping[str, str]] = {
    "PAUSED": "It was paused. Run `assent instances resume {id}`, or `assent instances cancel {id}`.",
    "NO_APPROVERS": "Make sure that there is a person to ask, then run `assent instances retry {id}`.",
    "NO_ASSIGNEE": "Make sure that there is a person to ask, then run `assent instances retry {id}`.",
    "POLICY_DENIED": "Grant the right that is missing, then run `assent instances retry {id}`.",
    "WORKFLOW_CHAIN_LIMIT": "It calls itself. Correct the workflow, then run `assent instances resume {id}`.",
}
_DEFAULT_ADVICE: Final = "Correct the cause, then run `assent instances retry {id}`."
_ENDED_ADVICE: Final = "It has ended. Start a new one when the cause is gone."


def print_done(said: str, view: InstanceView | None, *, json: bool) -> None:
    """Print what a command did, and where the instance stands now if the member may read it."""
    if json:
        print_body(InstanceBody.of(view) if view else None)
    else:
        print_stand(said, view)


def print_stand(said: str, view: InstanceView | None) -> None:
    """Print what a command did, and where the instance stands now, as text."""
    out = console()
    out.print(Text("✓ ", "green").append(safe(said), "default"))
    if view is None:
        return
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


REQUESTS_MAX: Final = 50
_QUIET_KINDS: Final = frozenset({"slot"})
"""Steps in which nothing happens that an author knows of."""


class InstancePageBody(ResponseModel):
    """An instance with its entity and its approvals, each as HTTP returns it alone."""

    entity: EntityBody | None
    instance: Descriptor | None
    approvals: list[ApprovalBody]
    advice: str | None


@dataclass(frozen=True, slots=True)
class InstancePage:
    """What there is to see of an instance and its entity, at one moment."""

    now: datetime
    entity: Entity | None
    row: Row | None
    described: Description | None = None
    approvals: Sequence[ApprovalDetails] = ()
    """The newest first."""

    @property
    def body(self) -> InstancePageBody:
        """Return the page for programs: each part as HTTP returns it."""
        row, incident = self.row, self.row["incident"] if self.row else None
        return InstancePageBody(
            entity=EntityBody.of(self.entity) if self.entity else None,
            instance=Descriptor.of_description(row, self.described) if row and self.described else None,
            approvals=[ApprovalBody.of_details(details) for details in self.approvals],
            advice=advice(incident["code"], row["status"], row["id"]) if row and incident else None,
        )


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
    if page.approvals:
        out.print("\nasked", style="bold")
        print_table(_requests([details.request for details in page.approvals], page.described))
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


def print_request(details: ApprovalDetails) -> None:
    """Print an approval request with its approvers and their decisions."""
    request, out = details.request, console()
    out.print(Text(f"{request.id}  ", "bold").append(status_text(request.status)))
    about = f"{safe(request.entity_type or '')} {request.entity_id} version {request.entity_version}  "
    title = safe(request.title or request.node_id)
    out.print(f"  {about if request.entity_id else ''}{title}, asked by {safe(request.requested_by)}")
    for name, value in (details.snapshot or {}).items():
        out.print(f"  {safe(name)}: {safe(one_line(str(value)))}")
    print_table(table(("  at", "step", "", "who", "why"), _request_rows(request, {})))


def _requests(requests: Sequence[ApprovalRequest], described: Description) -> Table:
    rows = [row for request in reversed(requests) for row in _request_rows(request, described.node_names)]
    return table(("  at", "step", "", "who", "why"), rows)


def _request_rows(request: ApprovalRequest, node_names: Mapping[str, str]) -> Iterator[list[Cell]]:
    step = node_names.get(request.node_id, request.node_id)
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
    steps = [step for step in described.timeline if step["node_type"] not in _QUIET_KINDS]
    rows = [
        _step_cells(TimelineStep.of_row(step, described.node_names.get(step["node_id"]))) for step in steps
    ]
    return table(("  at", "step", "kind", "", "who", "why"), rows)


def _step_cells(step: TimelineStep) -> list[Cell]:
    became = status_text(step.status) if step.status != "pending" else Text("waits", "yellow")
    if step.outcome and step.outcome != step.status:
        became = became.append(f" → {safe(step.outcome)}", "default")
    at = moment(step.finished_at or step.at)
    who = step.finished_by or step.actor or "system"
    name, why = step.step.removeprefix("ctl:"), one_line(step.error or step.reason)
    return [f"  {at}", name, step.kind, became, who, why]


async def read_page(session: ActorSession, given: GivenId) -> InstancePage:
    """Return what there is to see of an instance, or of the newest instance of an entity."""

    org_id = session.org_id
    async with session.reading() as connection:
        meant = await find_meant(session, connection, given)
        instance_id = meant.instance_id or await _newest_instance(session, connection, meant)
        row = await find_instance(connection, org_id, instance_id) if instance_id else None
        entity_id = row["entity_id"] if row else meant.entity_id
        entity = await read_entity(connection, org_id, entity_id) if entity_id else None
        page = InstancePage(session.now(), entity, row)
        return await _with_history(session, connection, page, instance_id) if instance_id else page


async def _newest_instance(
    session: ActorSession, connection: Connection, meant: CommandTarget
) -> UUID | None:

    wanted = InstanceFilter(entity_id=meant.entity_id)
    rows = await list_instances(connection, session.org_id, wanted, None, 1)
    return rows[0]["id"] if rows else None


async def _with_history(
    session: ActorSession, connection: Connection, page: InstancePage, instance_id: UUID
) -> InstancePage:

    org_id, runtime = session.org_id, session.runtime
    described = await describe(runtime.core, connection, org_id, instance_id, session.actor)
    asked = await requests_of_instance(connection, org_id, instance_id, REQUESTS_MAX)
    return replace(page, described=described, approvals=asked)
