"""Why a scenario failed, in words for its author: the step, what was expected, who is asked, what happened."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from assent.testing.scenarios.compare import Difference
from assent.testing.scenarios.document_state import DocumentState, Happened, OpenWait
from assent.testing.scenarios.scenario import PlacedStep

_QUIET_KINDS: Final = frozenset({"start", "slot"})
"""Steps in which nothing happens that an author knows of."""


@dataclass(frozen=True, slots=True)
class ScenarioFailure:
    """What went otherwise than written, and where everything stood then."""

    step: PlacedStep
    message: str
    differences: tuple[Difference, ...] = ()
    standing: DocumentState | None = None

    def lines(self) -> Iterator[str]:
        """The report, line by line."""
        yield f"step {self.step.number}, line {self.step.line}:"
        yield from (f"    {line}" for line in self.step.text.splitlines())
        yield f"  {self.message}"
        yield from _table([(d.what, d.expected, d.found) for d in self.differences])
        if self.standing is not None:
            yield from _where_it_stands(self.standing)

    def to_json(self) -> dict[str, Any]:
        return {
            "step": self.step.number,
            "line": self.step.line,
            "text": self.step.text,
            "message": self.message,
            "differences": [difference.to_json() for difference in self.differences],
            "report": list(self.lines()),
        }


def _table(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    width = max((len(what) for what, _, _ in rows), default=0)
    for what, expected, found in rows:
        yield f"  {what:<{width}}  expected: {expected}"
        yield f"  {'':<{width}}  found:    {found}"


def _where_it_stands(standing: DocumentState) -> Iterator[str]:
    yield f"  {_heading(standing)}"
    yield from _what_waits(standing)
    if standing.view is not None and standing.view.incident:
        yield f"  It stopped: {_incident(standing.view.incident)}"
    for failure in standing.failures:
        yield f"  {_event_that_failed(failure)}"
    shown = [happened for happened in standing.happened if happened.kind not in _QUIET_KINDS]
    if shown:
        yield "  What happened last:"
        yield from (f"    {_line(happened)}" for happened in reversed(shown))


def _heading(standing: DocumentState) -> str:
    parts = []
    if (entity := standing.entity) is not None:
        parts.append(f"state {entity.state}, version {entity.version}, edits {entity.edit_window.value}")
    parts.append(f"workflow {standing.view.status}" if standing.view else "no workflow")
    return f"Where {standing.name} stands: {'; '.join(parts)}"


def _what_waits(standing: DocumentState) -> Iterator[str]:
    if not standing.waits:
        yield "  Nothing waits."
        return
    yield "  What waits:"
    rows = [(wait.waiting.name, _for_whom(wait)) for wait in standing.waits]
    width = max(len(name) for name, _ in rows)
    yield from (f"    {name:<{width}}  {text}" for name, text in rows)


def _for_whom(wait: OpenWait) -> str:
    waiting = wait.waiting
    text = f"{waiting.kind} asks {', '.join(wait.asked)}" if wait.asked else waiting.kind
    if not wait.asked and waiting.answers:
        text += f", for {' or '.join(waiting.answers)}"
    if wait.since is not None:
        text += f"; since {_moment(wait.since)}"
    return f"{text}; due {_moment(waiting.due_at)}" if waiting.due_at else text


def _incident(incident: Any) -> str:
    place = f" at {incident['node']}" if incident.get("node") else ""
    return f"{incident.get('code')}{place}: {incident.get('message')}"


def _event_that_failed(failure: Any) -> str:
    if failure["status"] == "dead":
        return f"An event is dead after {failure['attempts']} attempts: {failure['error']}"
    again = f", again at {_moment(failure['retry_at'])}" if failure["retry_at"] else ""
    return f"An event failed{again}: {failure['error']}"


def _line(happened: Happened) -> str:
    who = happened.actor or "system"
    said = _said(happened)
    return f"{_moment(happened.at)}  {who:<8}  {happened.node} ({happened.kind}) {said}".rstrip()


def _said(happened: Happened) -> str:
    """What became of a step: what people answered, why it ended, what broke."""
    output = happened.output
    decisions = [_decision(decision) for decision in output.get("decisions", ())]
    parts = [happened.status if happened.status != "pending" else "waits", *decisions]
    if output.get("reason") and not decisions:
        parts.append(str(output["reason"]))
    if happened.error:
        parts.append(happened.error)
    return ": ".join(parts)


def _decision(decision: Any) -> str:
    instead = f" for {decision['for']}" if decision.get("for") else ""
    why = f" ({decision['reason']})" if decision.get("reason") else ""
    return f"{decision['by']}{instead} {decision['answer']}{why}"


def _moment(moment: datetime) -> str:
    return f"{moment:%a %Y-%m-%d %H:%M}"
