"""One instance for a person: where it stands, what it waits for, what people answered, what happened."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from assent.cli.options import GivenId
from assent.cli.output import (
    Cell,
    console,
    counted,
    length,
    moment,
    one_line,
    print_body,
    print_table,
    safe,
    status_text,
    table,
)
from assent.cli.remote import JsonBody, Server, get

_ADVICE: Final[Mapping[str, str]] = {
    "PAUSED": "It was paused. Run `assent instances resume {id}`, or `assent instances cancel {id}`.",
    "NO_APPROVERS": "Make sure that there is a person to ask, then run `assent instances retry {id}`.",
    "NO_ASSIGNEE": "Make sure that there is a person to ask, then run `assent instances retry {id}`.",
    "POLICY_DENIED": "Grant the right that is missing, then run `assent instances retry {id}`.",
    "EVENT_HOPS_LIMIT": "Workflows emit to each other. Correct or cancel one, or run `assent instances resume {id}`.",
    "WORKFLOW_CHAIN_LIMIT": "It calls itself. Correct the workflow, then run `assent instances resume {id}`.",
}
_DEFAULT_ADVICE: Final = "Correct the cause, then run `assent instances retry {id}`."
_ENDED_ADVICE: Final = "It has ended. Start a new one when the cause is gone."


def print_done(said: str, view: Any, *, json: bool) -> None:
    """Print what a command did, and where the instance stands now if the member may read it."""
    if json:
        print_body(view)
    else:
        print_stand(said, view)


def print_stand(said: str, view: Any) -> None:
    """Print what a command did, and where the instance stands now, as text."""
    out = console()
    out.print(Text("✓ ", "green").append(safe(said), "default"))
    if view is None:
        return
    out.print(Text("  ").append(status_text(view.status)).append(f"  {safe(view.workflow_id)}  {view.id}"))
    if view.steps:
        print_table(waiting_table(view.steps, datetime.now(UTC)))
    for line in incident_lines(view.incident, view.status, view.id):
        out.print(line)


def waiting_table(waiting: Sequence[Any], now: datetime) -> Table:
    headings = ("  waits at", "kind", "asks", "waiting", "due", "request")
    return table(headings, ([f"  {one.name}", *_waiting_cells(one, now)] for one in waiting))


def _waiting_cells(one: Any, now: datetime) -> list[str | Text | None]:
    since = length(now - one.since) if one.since else ""
    answers = one.get("answers", ())
    answers = "" if one.request_id else f"answers: {', '.join(answers)}" if answers else ""
    due = Text(moment(one.due_at), "red" if one.due_at and one.due_at < now else "")
    return [one.kind, ", ".join(one.asked) or answers, since, due, str(one.request_id or "")]


def incident_lines(incident: Mapping[str, Any] | None, status: str, instance_id: Any) -> Iterator[Text]:
    """Yield what stopped it, and what to do about it."""
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


def ask_page(server: Server, given: GivenId) -> Any:
    """Return an instance with its entity and its approvals, each as the server shows it; or an entity alone."""
    named = server.instance_or_entity(given)
    instance = server.ask(get("instances", named.instance))
    entity = None
    if instance.entity_id is not None:
        entity = server.ask(get("entities", instance.entity_type, instance.entity_id))
    asked = server.ask(get("instances", named.instance, "approvals", limit=REQUESTS_MAX))
    incident = instance.incident
    return JsonBody(
        entity=entity,
        instance=instance,
        approvals=asked["items"],
        advice=advice(incident["code"], instance.status, instance.id) if incident else None,
    )


def print_page(page: Any) -> None:
    """Print where an instance stands, who is asked, what its steps sent, and how it came there."""
    out, now = console(), datetime.now(UTC)
    if page.entity is not None:
        out.print(entity_line(page.entity))
    instance = page.instance
    if instance is None:
        out.print("No workflow has ever run for it.", style="dim")
        return
    for line in _head(instance, now):
        out.print(line)
    if instance.steps:
        print_table(waiting_table(instance.steps, now))
    for line in _missing(instance):
        out.print(line)
    if could := _could(instance):
        out.print(could)
    if page.approvals:
        out.print("\nasked", style="bold")
        names = {step.node_id: step.step for step in instance.timeline}
        names |= {step.node_id: step.name for step in instance.steps}
        rows = [row for request in reversed(page.approvals) for row in _request_rows(request, names)]
        print_table(table(("  at", "step", "", "who", "why"), rows))
    if instance.effects:
        out.print("\nsent", style="bold")
        print_table(_effects(instance.effects))
    out.print("\nhappened", style="bold")
    print_table(timeline(instance.timeline))


def _effects(effects: Sequence[Any]) -> Table:
    """Return each effect with its state, its attempts, the last answer and the next try."""
    headings = ("  at", "step", "to", "", "attempts", "next try", "last answer")
    return table(headings, map(_effect_cells, reversed(effects)), right=("attempts",))


def _effect_cells(effect: Any) -> list[Cell]:
    last = effect.tried[-1] if effect.tried else None
    said = one_line(last.error) if last and last.error else "sent" if last else ""
    if last and last.ambiguous:
        said += " (it may have been received)"
    attempts = f"{effect.attempts} of {effect.attempts_max}"
    to = f"{effect.type} {effect.destination}" if effect.destination != effect.type else effect.type
    at, then = moment(effect.created_at), moment(effect.next_at)
    return [f"  {at}", effect.step, to, status_text(effect.status), attempts, then, said]


def entity_line(entity: Any) -> Text:
    """Return an entity with its state, its version and the effect of an edit."""
    text = Text(f"{safe(entity.type)} {entity.id}", "bold").append("  ")
    return text.append(
        f"{safe(entity.state)}, version {entity.version}, edits {entity.edit_window}", "default"
    )


def _head(row: Any, now: datetime) -> Iterator[Text]:
    version = f"{safe(row['workflow_id'])} {row['definition_version']}"
    yield Text(f"{version}  {row['id']}  ", "bold").append(status_text(row["status"]))
    ended = f"; ended {moment(row.completed_at)}" if row.completed_at else ""
    expires = f"; time is over {moment(row.expires_at)}" if row.expires_at and not ended else ""
    age = length(now - row.started_at)
    yield Text(f"  started {moment(row.started_at)} by {safe(row['subject_id'])}, {age} ago{ended}{expires}")
    yield from incident_lines(row["incident"], row["status"], row["id"])


def _missing(instance: Any) -> Iterator[Text]:
    """Yield the documents that steps wait for."""
    for step in instance.steps:
        for one in step.missing:
            code = f", last rejected as {one.rejection_code}" if one.rejection_code else ""
            text = f"{one.doc_type} of {one.subject}: {one.status}{code}"
            yield Text("  missing    ", "cyan").append(safe(text), "default")


def _could(instance: Any) -> Text | None:
    """Return what the reader could do about it now."""
    events = [f"{step.name}: {' | '.join(step.events)}" for step in instance.steps if step.events]
    answers = {event for step in instance.steps for event in step.events}
    ways = [*events, *(f"transition: {name}" for name in instance.transitions if name not in answers)]
    return Text("  you could  ", "cyan").append(safe("; ".join(ways)), "default") if ways else None


def print_request(request: Any) -> None:
    """Print an approval request with its approvers and their decisions."""
    out = console()
    out.print(Text(f"{request.id}  ", "bold").append(status_text(request.status)))
    about = f"{safe(request.entity_type or '')} {request.entity_id} version {request.entity_version}  "
    title = safe(request.title or request.node_name or request.node_id)
    out.print(f"  {about if request.entity_id else ''}{title}, asked by {safe(request.requested_by)}")
    for name, value in (request.snapshot or {}).items():
        out.print(f"  {safe(name)}: {safe(one_line(str(value)))}")
    if request.attachments:
        listed = f"assent attachments list {request.entity_type} {request.entity_id}"
        out.print(f"  {counted(len(request.attachments), 'attachment')}: {listed}", style="dim")
    print_table(table(("  at", "step", "", "who", "why"), _request_rows(request, {})))
    if request.questions:
        asked = f"{counted(request.questions, 'question')}: assent questions list {request.id}"
        out.print(f"  {asked}", style="dim")


def _request_rows(request: Any, node_names: Mapping[str, str]) -> Iterator[list[Cell]]:
    step = node_names.get(request.node_id) or request.node_name or request.node_id
    # Seats of a request that has ended are of the past, whatever their status.
    is_open = request.status == "pending"
    asked, later = (_names(request, status) if is_open else "" for status in ("open", "later"))
    waits = f"asks {asked}" if asked else f"asked by {request.requested_by}"
    waits += f", later {later}" if later else ""
    why = request.reason or f"version {request.entity_version}" if request.entity_id else request.reason
    yield [f"  {moment(request.created_at)}", step, status_text(request.status), waits, why]
    for decision in request.decisions:
        yield [f"  {moment(decision.decided_at)}", "", _answer(decision), _who(decision), decision.reason]


def _names(request: Any, status: str) -> str:
    return ", ".join(sorted({seat.user_id for seat in request.seats if seat.status == status}))


def _answer(decision: Any) -> Text:
    return status_text(decision.outcome or decision.answer)


def _who(decision: Any) -> str:
    instead = f" for {decision.on_behalf_of}" if decision.on_behalf_of else ""
    return f"{decision.approver_id}{instead}"


def timeline(steps: Sequence[Any]) -> Table:
    """Return the steps that an instance took, as a table."""
    rows = [_step_cells(step) for step in steps if step.kind not in _QUIET_KINDS]
    return table(("  at", "step", "kind", "", "who", "why"), rows)


def _step_cells(step: Any) -> list[Cell]:
    became = status_text(step.status) if step.status != "pending" else Text("waits", "yellow")
    if step.outcome and step.outcome != step.status:
        became = became.append(f" → {safe(step.outcome)}", "default")
    at = moment(step.finished_at or step.at)
    who = step.finished_by or step.actor or "system"
    name, why = step.step.removeprefix("ctl:"), one_line(step.error or step.reason)
    return [f"  {at}", name, step.kind, became, who, why]
