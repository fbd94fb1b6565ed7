"""What a scenario expects, held against how a document stands; and why it failed, in words for its author.

A failure names the step, what was expected, who is asked, and what happened.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from assent.testing.scenarios.document_state import DocumentState, Happened, Json, OpenWait
from assent.testing.scenarios.scenario import PlacedStep
from assent.testing.scenarios.steps import Expected, Sent

NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as it was expected, in words."""

    what: str
    expected: str
    found: str

    def to_json(self) -> dict[str, str]:
        return {"what": self.what, "expected": self.expected, "found": self.found}


def differences(expected: Expected, standing: DocumentState) -> list[Difference]:
    """Return everything that is otherwise than expected, in the order in which it can be written."""
    named = [name for name in type(expected).model_fields if name in expected.model_fields_set]
    return [
        difference for name in named for difference in _COMPARE[name](name, getattr(expected, name), standing)
    ]


Compare = Callable[[str, Any, DocumentState], Iterator[Difference]]


def _same(found: Callable[[DocumentState], Any]) -> Compare:
    def compare(what: str, expected: Any, standing: DocumentState) -> Iterator[Difference]:
        if (actual := found(standing)) != expected:
            yield Difference(what, _text(expected), _text(actual))

    return compare


def _state(standing: DocumentState) -> Any:
    return standing.entity.state if standing.entity else None


def _edit(standing: DocumentState) -> Any:
    return standing.entity.edit_window.value if standing.entity else None


def _version(standing: DocumentState) -> Any:
    return standing.entity.version if standing.entity else None


def _status(standing: DocumentState) -> Any:
    return standing.view.status if standing.view else None


def _incident(standing: DocumentState) -> Any:
    incident = standing.view.incident if standing.view else None
    return incident.get("code") if incident else "none"


def _waiting(what: str, expected: tuple[str, ...], standing: DocumentState) -> Iterator[Difference]:
    if sorted(expected) != standing.waiting:
        yield Difference(what, _names(sorted(expected)), _names(standing.waiting))


def _asked(
    what: str, expected: Mapping[str, tuple[str, ...]], standing: DocumentState
) -> Iterator[Difference]:
    for step, people in expected.items():
        found = standing.asked.get(step)
        if found != sorted(people):
            actual = "no person: it does not wait" if found is None else _names(found)
            yield Difference(f"{what} at {step}", _names(sorted(people)), actual)


def _void(what: str, expected: tuple[str, ...], standing: DocumentState) -> Iterator[Difference]:
    missing = [name for name in expected if name not in standing.void]
    if missing or (standing.void and not expected):
        yield Difference(what, _names(expected), _names(standing.void))


def _sent(what: str, expected: tuple[Sent, ...], standing: DocumentState) -> Iterator[Difference]:
    everything = _effects(standing.effects)
    if standing.effects and not expected:
        yield Difference(what, NOTHING, everything)
    for sent in expected:
        if not any(_is(sent, channel, payload) for channel, payload in standing.effects):
            yield Difference(what, _text(sent.model_dump(exclude_none=True)), everything)


def _not_sent(what: str, unwanted: tuple[Sent, ...], standing: DocumentState) -> Iterator[Difference]:
    for sent in unwanted:
        if found := [effect for effect in standing.effects if _is(sent, *effect)]:
            yield Difference(what, f"no {_text(sent.model_dump(exclude_none=True))}", _effects(tuple(found)))


def _is(sent: Sent, channel: str, payload: Json) -> bool:
    if sent.channel is not None and (sent.channel, sent.to) != (channel, _destination(channel, payload)):
        return False
    if sent.subject is not None and sent.subject not in str(payload.get("subject", "")):
        return False
    if sent.text is not None and sent.text not in str(payload.get("text", "")):
        return False
    return sent.body is None or not list(parts_that_differ(sent.body, payload.get("body")))


def _destination(channel: str, payload: Json) -> Any:
    keys = {"webhook": "url", "integration": "operation"}
    return payload.get(keys.get(channel, "to"))


def _effects(effects: tuple[tuple[str, Json], ...]) -> str:
    parts = [
        f"{channel} to {_destination(channel, payload)}: {_short(payload.get('text') or payload.get('body'))}"
        for channel, payload in effects
    ]
    return "; ".join(parts) or NOTHING


def _tables(
    what: str, expected: Mapping[str, Sequence[Mapping[str, Any]]], standing: DocumentState
) -> Iterator[Difference]:
    for table, rows in expected.items():
        left = list(standing.tables[table])
        for row in rows:
            match = next((found for found in left if not list(parts_that_differ(row, found))), None)
            if match is not None:
                left.remove(match)
            else:
                yield Difference(f"{what}.{table}", _text(row), _rows(standing.tables[table]))
        if len(standing.tables[table]) != len(rows):
            yield Difference(f"{what}.{table}", f"{len(rows)} rows", _rows(standing.tables[table]))


def _rows(rows: Sequence[Json]) -> str:
    return f"{len(rows)} rows: {_short([dict(row) for row in rows])}" if rows else "no row"


def _fields(values: Callable[[DocumentState], Any]) -> Compare:
    def compare(what: str, expected: Any, standing: DocumentState) -> Iterator[Difference]:
        for path, wanted, found in parts_that_differ(expected, values(standing)):
            yield Difference(".".join((what, *path)), _text(wanted), _text(found))

    return compare


def parts_that_differ(expected: Any, found: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield what is named in `expected` and otherwise in `found`: path, expected, found. Objects may hold more."""
    if not isinstance(expected, Mapping) or not isinstance(found, Mapping):
        if not _equal(expected, found):
            yield (), expected, found
        return
    for key, wanted in expected.items():
        for path, one, other in parts_that_differ(wanted, found.get(key)):
            yield (str(key), *path), one, other


def _equal(expected: Any, found: Any) -> bool:
    """Return whether two values are the same; two times are, however their zones are written."""
    if expected == found or not (isinstance(expected, str) and isinstance(found, str)):
        return bool(expected == found)
    try:
        moments = datetime.fromisoformat(expected), datetime.fromisoformat(found)
    except ValueError:
        return False
    return all(moment.tzinfo for moment in moments) and moments[0] == moments[1]


_COMPARE: Final[Mapping[str, Compare]] = {
    "state": _same(_state),
    "edit": _same(_edit),
    "version": _same(_version),
    "data": _fields(lambda standing: standing.entity.data if standing.entity else None),
    "status": _same(_status),
    "waiting": _waiting,
    "asked": _asked,
    "void": _void,
    "sent": _sent,
    "not_sent": _not_sent,
    "incident": _same(_incident),
    "tables": _tables,
    "workflow": _fields(lambda standing: standing.view.context if standing.view else None),
}


def _names(names: Any) -> str:
    return ", ".join(names) or NOTHING


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _short(value: Any, length_max: int = 80) -> str:
    text = _text(value)
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


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
        """Yield the report, line by line."""
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
        yield f"  It stopped: {_incident_line(standing.view.incident)}"
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


def _incident_line(incident: Any) -> str:
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
    """Return how a step ended: what people answered, why it ended, what broke."""
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
