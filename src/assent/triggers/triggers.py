"""What an application starts on events: triggers, and joins over completed tasks.

A worker evaluates them where it routes events, and submits the tasks in the transaction that completes the event: each
event starts the tasks of a trigger once. What is evaluated are expressions, and no code of the application.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from assent.language.functions import ExpressionTooCostly
from assent.language.program import Program
from assent.language.values import as_json
from assent.model.ids import new_id
from assent.model.mutation import PARTITION, PEOPLE
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.submit import Submission, submit_tasks
from assent.tasks.task_type import TaskType

_SQL: Final = load_queries("assent.triggers", "triggers.sql")

COMPLETED: Final = "task.completed:"
"""Begins the key of the event that a task of a type has completed."""
DOCUMENT_VERSION: Final = "document.version"
"""The key of the event that a version of a document was handed in."""
KEY_CHARACTERS_MAX: Final = 256
"""Of the key of a join; the tasks of a longer one are not joined."""


@dataclass(frozen=True, slots=True)
class DeclaredTrigger:
    """Starts a task on events under a key."""

    name: str
    on: str
    """The key of the events."""
    kind: TaskType
    match: Program | None = None
    """Whether an event starts a task; None: each does."""
    input: Mapping[str, Program] | None = None
    """The input of the task; None: what it takes of the event's data."""
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class DeclaredJoin:
    """Starts a task when tasks of all these types have completed that have a key in common."""

    name: str
    types: tuple[str, ...]
    key: Program
    """What the tasks have in common, such as `input.hash`."""
    kind: TaskType


@dataclass(frozen=True, slots=True)
class Triggers:
    """The triggers and joins of an application."""

    triggers: Sequence[DeclaredTrigger] = ()
    joins: Sequence[DeclaredJoin] = ()

    @property
    def names(self) -> list[str]:
        """Return their names as workers declare them, and what the database is to watch and emit for them."""
        by_key = [(one.on, one.name) for one in self.triggers]
        by_key += [(f"{COMPLETED}{kind}", one.name) for one in self.joins for kind in one.types]
        watched = sorted({on for on, _ in by_key if on == DOCUMENT_VERSION or on.startswith(COMPLETED)})
        return [_declared_name(*one) for one in by_key] + [f"watch:{on}" for on in watched]


def _declared_name(on: str, name: str) -> str:
    return f"trigger:{on} {name}"


async def find_unknown_keys(connection: Connection, known: Triggers, keys: Collection[str]) -> set[str]:
    """Return those of the keys for which newer code than ours declares a trigger: its workers take the events."""
    if not keys:
        return set()
    ours = set(known.names)
    rows = await connection.fetch(_SQL.find_trigger_names)
    unknown = [row["name"] for row in rows if row["name"] not in ours]
    return {key for key in keys if any(name.startswith(_declared_name(key, "")) for name in unknown)}


@dataclass(slots=True)
class _Started:
    """What a batch of events starts."""

    submissions: list[Submission] = field(default_factory=list)
    joined: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of a batch of events."""

    taken: frozenset[UUID]
    """Those that a trigger or a join has taken."""
    costly: frozenset[UUID]
    """Those of which an expression looked at too much; they have started nothing."""


async def fire_triggers(
    connection: Connection, known: Triggers, arrivals: Sequence[asyncpg.Record], now: datetime
) -> Fired:
    """Submit the tasks that a batch of events starts."""
    started, taken, costly = _Started(), set[UUID](), set[UUID]()
    for row in arrivals:
        try:
            submissions = _triggered(known, row, now)
            joined = _joined(known, row, now)
        except ExpressionTooCostly:
            costly.add(row["id"])
            continue
        if submissions or joined:
            taken.add(row["id"])
        started.submissions += submissions
        for place, one in joined.items():
            # Of two tasks of one type the first counts; the other adds nothing.
            before = started.joined.setdefault(place, one)
            before["completed"] = {**one["completed"], **before["completed"]}
    submissions = started.submissions + await _complete_joins(connection, known, started)
    if submissions:
        await submit_tasks(connection, submissions, now)
    return Fired(frozenset(taken), frozenset(costly))


def _triggered(known: Triggers, row: asyncpg.Record, now: datetime) -> list[Submission]:
    """Return the tasks that the triggers of an event start."""
    mine = [one for one in known.triggers if one.on == row["payload_json"]["key"]]
    variables = _variables(row["payload_json"].get("data"), now) if mine else {}
    matching = [one for one in mine if one.match is None or one.match.holds(variables)]
    return [_submission(trigger, row, variables, now) for trigger in matching]


def _submission(
    trigger: DeclaredTrigger, row: asyncpg.Record, variables: Mapping[str, Any], now: datetime
) -> Submission:
    kind, asked = trigger.kind, trigger.input
    given = _taken(kind, variables["event"]) if asked is None else _values(asked, variables)
    return Submission(
        org_id=row["org_id"],
        id=new_id(now),
        type=kind.name,
        input=given,
        throttle=kind.throttle(given),
        priority=kind.priority if trigger.priority is None else trigger.priority,
        attempts_max=kind.attempts_max,
        submitted_by=f"trigger:{trigger.name}",
        people=row["payload_json"].get(PEOPLE, ()),
        partition_id=row["payload_json"].get(PARTITION),
        trace_id=row["trace_id"],
    )


def _values(programs: Mapping[str, Program], variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: as_json(program.value(variables)) for name, program in programs.items()}


def _variables(data: Any, now: datetime) -> dict[str, Any]:
    """Return the fields of an event by their names, and all of it as `event`."""
    fields = data if isinstance(data, Mapping) else {}
    return {**fields, "event": data, "now": now}


def _taken(kind: TaskType, data: Any) -> dict[str, Any]:
    """Return what a task takes of an event's data; what it needs and does not get, it says at its attempt."""
    fields = data if isinstance(data, Mapping) else {}
    if kind.asked.whole is not None:
        return dict(fields)
    return {name: value for name, value in fields.items() if name in kind.on_start.names}


def _joined(known: Triggers, row: asyncpg.Record, now: datetime) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the joins that wait for a completed task, by their place in the table; none for another event."""
    payload = row["payload_json"]
    kind, data = payload["key"].removeprefix(COMPLETED), payload.get("data")
    if f"{COMPLETED}{kind}" != payload["key"] or not isinstance(data, Mapping):
        return {}
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for join in known.joins:
        key = join.key.value(_variables(data, now)) if kind in join.types else None
        if key is None or not 0 < len(str(key)) <= KEY_CHARACTERS_MAX:
            continue
        place = {
            "org_id": row["org_id"],
            "name": join.name,
            "partition_id": payload.get(PARTITION) or "",
            "key": str(key),
        }
        completed = {
            kind: {"task": data.get("id"), "output": data.get("output"), PEOPLE: payload.get(PEOPLE, ())}
        }
        offered = {"types": list(join.types), "task_id": new_id(now), "completed": completed}
        found[tuple(place.values())] = {**place, **offered}
    return found


async def _complete_joins(connection: Connection, known: Triggers, started: _Started) -> list[Submission]:
    """Note what has completed; return the tasks of those joins of which nothing is missing by that."""
    if not started.joined:
        return []
    rows = await connection.fetch(_SQL.join_completed, list(started.joined.values()))
    ours = {one["task_id"] for one in started.joined.values()}
    kinds = {join.name: join.kind for join in known.joins}
    return [_joining(kinds[row["name"]], row) for row in rows if row["started"] and row["task_id"] in ours]


def _joining(kind: TaskType, row: asyncpg.Record) -> Submission:
    """Return the task of a join: it takes `key`, and of each type the id and the output of its task."""
    completed: Mapping[str, Any] = row["completed"]
    offered = {
        "key": row["key"],
        "tasks": {name: one["task"] for name, one in completed.items()},
        "outputs": {name: one["output"] for name, one in completed.items()},
    }
    given = _taken(kind, offered)
    return Submission(
        org_id=row["org_id"],
        id=row["task_id"],
        type=kind.name,
        input=given,
        throttle=kind.throttle(given),
        priority=kind.priority,
        attempts_max=kind.attempts_max,
        submitted_by=f"join:{row['name']}",
        people=sorted({person for one in completed.values() for person in one[PEOPLE]}),
        partition_id=row["partition_id"] or None,
    )
