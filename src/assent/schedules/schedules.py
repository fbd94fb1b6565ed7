"""The rows of schedules: made and changed by administrators, declared by applications, claimed and moved by workers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

import asyncpg
from cronsim import CronSimError
from pydantic import Field

from assent.model.actor import Actor, people_of
from assent.model.ids import new_id
from assent.model.mutation import Refused, Rejection
from assent.model.names import require_name
from assent.model.parse import Declaration, parse_declaration
from assent.model.problems import Invalid, Problem, error_text
from assent.model.terms import Cron, DottedName
from assent.schedules.cron import Missed, Ticks, cron_problems, next_tick, ticks_after, ticks_due
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.tasks.submit import Submission, submit_tasks
from assent.tasks.task_type import TaskType

_SQL: Final = load_queries("assent.schedules", "schedules.sql")

MANAGE_SCHEDULES: Final = "schedules:manage"
"""The capability to make, change, pause and delete schedules, and to run one at once."""
READ_SCHEDULES: Final = "schedules:read"
"""The capability to read schedules and their next times."""

AT_PARAMETER: Final = "scheduled_at"
"""The parameter of a task's function that gets the time for which a schedule started it."""
_SOME_TIME: Final = datetime(2024, 1, 1, tzinfo=UTC)


class ScheduleSpec(Declaration):
    """A schedule as an administrator, or the code of an application, writes it."""

    task: DottedName
    """The type of the tasks that it starts."""
    cron: Cron
    zone: str = Field("UTC", min_length=1, max_length=100)
    """The time zone of the line."""
    missed: Missed = "once"
    """What is done about times that came while no worker ran."""
    input: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """A schedule that the code of an application declares."""

    name: str
    spec: ScheduleSpec
    orgs: tuple[str, ...] | None = None
    """The orgs that it is for; None: all that have a record or a member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSchedule:
    """A schedule of an org."""

    name: str
    task_type: str
    input: Mapping[str, Any]
    cron: str
    zone: str
    missed: Missed
    partition_id: str | None
    declared: bool
    """Whether the code of an application declares it."""
    paused: bool
    problem: str | None
    """Why a worker paused it."""
    next_at: datetime
    last_at: datetime | None
    """The last time that started a task."""
    last_task_id: UUID | None
    created_by: str
    created_at: datetime
    updated_at: datetime
    people: Sequence[str]
    """The members who made and changed it: what its tasks bring is their work."""

    @classmethod
    def of(cls, row: asyncpg.Record) -> Self:
        return cls(**row)


def parse_schedule(data: object) -> ScheduleSpec:
    """Return a schedule as it was written; raise `Invalid` with every problem."""
    spec, problems = parse_declaration(ScheduleSpec, data)
    if spec is None or (problems := cron_problems(spec.cron, spec.zone)):
        raise Invalid(problems)
    return spec


def input_at(kind: TaskType, given: Mapping[str, Any], at: datetime) -> Mapping[str, Any]:
    """Return the input of a task that is started for a time: the schedule's, and that time where the task takes it."""
    return {**given, AT_PARAMETER: at.isoformat()} if AT_PARAMETER in kind.on_start.names else given


def check_input(kind: TaskType, given: Mapping[str, Any]) -> None:
    """Raise `Invalid` where a task could not take the input of a schedule."""
    if AT_PARAMETER in given and AT_PARAMETER in kind.on_start.names:
        message = f"`{AT_PARAMETER}` is the time of the schedule, and no part of its input"
        raise Invalid([Problem("BAD_VALUE", message, ("input", AT_PARAMETER))])
    kind.check(input_at(kind, given, _SOME_TIME))


async def list_schedules(
    connection: Connection, org_id: str, partition_id: str | None, after: str | None, limit: int
) -> list[SavedSchedule]:
    """Return the schedules of an org by name, of one partition where one is given."""
    rows = await connection.fetch(_SQL.list_schedules, org_id, None, partition_id, after, limit)
    return [SavedSchedule.of(row) for row in rows]


async def read_schedule(
    connection: Connection, org_id: str, name: str, partition_id: str | None
) -> SavedSchedule:
    """Return a schedule; raise `Refused` if there is none."""
    row = await connection.fetchrow(_SQL.list_schedules, org_id, name, partition_id, None, 1)
    return _found(row, name, partition_id)


async def save_schedule(  # noqa: PLR0913, PLR0917
    connection: Connection, org_id: str, name: str, spec: ScheduleSpec, partition_id: str | None, by: Actor
) -> SavedSchedule:
    """Make a schedule, or change the one of this name; raise `Refused` for one that an application declares.

    Where the line and its zone stay, so does the next time.
    """
    require_name(name, "name")
    now = await transaction_time(connection)
    next_at = next_tick(spec.cron, spec.zone, now)
    values = spec.task, spec.input, spec.cron, spec.zone, spec.missed
    people = list(people_of(by))
    made = partition_id, next_at, by.id, people
    row = await connection.fetchrow(_SQL.insert_schedule, org_id, name, *values, *made)
    if row is not None:
        return SavedSchedule.of(row)
    former = await lock_schedule(connection, org_id, name, partition_id)
    if former.declared:
        message = f"schedule `{name}` is declared by the code of an application"
        hint = "change it there; or pause it, and make one of another name"
        raise Refused(Rejection("SCHEDULE_DECLARED", message, ("name",), hint=hint))
    if (former.cron, former.zone) == (spec.cron, spec.zone):
        next_at = former.next_at
    row = await connection.fetchrow(_SQL.change_schedule, org_id, name, *values, next_at, people)
    return _found(row, name, partition_id)


async def pause_schedule(
    connection: Connection, org_id: str, name: str, partition_id: str | None
) -> SavedSchedule:
    """Pause a schedule, if it is not paused; raise `Refused` if there is none."""
    former = await lock_schedule(connection, org_id, name, partition_id)
    if former.paused:
        return former
    row = await connection.fetchrow(_SQL.pause_schedule, org_id, name, True, None)
    return _found(row, name, partition_id)


async def resume_schedule(
    connection: Connection, org_id: str, name: str, partition_id: str | None
) -> SavedSchedule:
    """Let a paused schedule go on; the times that came meanwhile are not made up for."""
    former = await lock_schedule(connection, org_id, name, partition_id)
    if not former.paused:
        return former
    if problems := cron_problems(former.cron, former.zone):
        raise Invalid(problems)
    next_at = next_tick(former.cron, former.zone, await transaction_time(connection))
    row = await connection.fetchrow(_SQL.pause_schedule, org_id, name, False, next_at)
    return _found(row, name, partition_id)


async def delete_schedule(
    connection: Connection, org_id: str, name: str, partition_id: str | None
) -> SavedSchedule:
    """Delete a schedule and return it; its tasks stay. Raise `Refused` if there is none, or code declares it now."""
    former = await lock_schedule(connection, org_id, name, partition_id)
    if former.declared and await connection.fetchval(_SQL.is_declared_now, [f"schedule:{name}"]):
        message = f"schedule `{name}` is declared by the code of a worker, which would make it again"
        raise Refused(Rejection("SCHEDULE_DECLARED", message, ("name",), hint="pause it, or change the code"))
    row = await connection.fetchrow(_SQL.delete_schedule, org_id, name)
    return _found(row, name, partition_id)


async def lock_schedule(
    connection: Connection, org_id: str, name: str, partition_id: str | None
) -> SavedSchedule:
    """Return a schedule, locked until the transaction ends; raise `Refused` if there is none."""
    return _found(await connection.fetchrow(_SQL.lock_schedule, org_id, name), name, partition_id)


def _found(row: asyncpg.Record | None, name: str, partition_id: str | None) -> SavedSchedule:
    if row is None or partition_id not in (None, row["partition_id"]):
        raise Refused(Rejection("NOT_FOUND", f"no schedule `{name}`", ("name",)))
    return SavedSchedule.of(row)


async def declare_schedules(
    connection: Connection, declared: Iterable[DeclaredSchedule], *, change: bool
) -> int:
    """Make the schedules that the code declares where they are missing; return how many rows were written.

    With `change`, those that differ become as the code says: the worker that started last knows best.
    """
    now = await transaction_time(connection)
    rows = [
        {
            "name": one.name,
            "task_type": one.spec.task,
            "input": one.spec.input,
            "cron": one.spec.cron,
            "zone": one.spec.zone,
            "missed": one.spec.missed,
            "next_at": next_tick(one.spec.cron, one.spec.zone, now),
            "orgs": one.orgs,
        }
        for one in declared
    ]
    written: int = await connection.fetchval(_SQL.declare_schedules, rows, change) if rows else 0
    return written


@dataclass(slots=True)
class Firing:
    """What one run of a worker does about the schedules whose time has come."""

    submissions: list[Submission] = field(default_factory=list)
    moves: list[dict[str, Any]] = field(default_factory=list)
    broken: list[dict[str, Any]] = field(default_factory=list)
    more: bool = False
    """Whether times are left that have come."""

    def add(self, row: asyncpg.Record, kind: TaskType, ticks: Ticks, now: datetime) -> None:
        """Add a task for each time that is due, and the next time."""
        made = [_submission(row, kind, at, now) for at in ticks.due]
        self.submissions += made
        self.moves.append(
            {
                "org_id": row["org_id"],
                "name": row["name"],
                "next_at": ticks.next_at,
                "last_at": ticks.due[-1] if made else None,
                "last_task_id": made[-1].id if made else None,
            }
        )
        self.more = self.more or ticks.next_at <= now

    def pause(self, row: asyncpg.Record, error: Exception) -> None:
        """Pause a schedule whose next time this machine does not know."""
        problem = f"its next time is not known here: {error_text(error)}"
        self.broken.append({"org_id": row["org_id"], "name": row["name"], "problem": problem})


def _submission(row: asyncpg.Record, kind: TaskType, at: datetime, now: datetime) -> Submission:
    given = input_at(kind, row["input"], at)
    return Submission(
        org_id=row["org_id"],
        id=new_id(now),
        type=row["task_type"],
        input=given,
        throttle=kind.throttle(given),
        priority=kind.priority,
        attempts_max=kind.attempts_max,
        submitted_by=f"schedule:{row['name']}",
        people=row["people"],
        partition_id=row["partition_id"],
    )


async def fire_schedules(
    connection: Connection,
    task_types: Mapping[str, TaskType],
    declared: Collection[DeclaredSchedule],
    limit: int,
    on_time: timedelta,
) -> tuple[int, bool]:
    """Submit a task for each time that has come of so many schedules, and move them on, in this transaction.

    Return how many tasks, and whether there may be more to do at once.
    """
    known = [{"name": one.name, "orgs": one.orgs} for one in declared]
    rows = await connection.fetch(_SQL.claim_due_schedules, list(task_types), known, limit)
    if not rows:
        return 0, False
    now = await transaction_time(connection)
    firing = Firing()
    for row in rows:
        line = row["cron"], row["zone"], row["next_at"]
        try:
            ticks = ticks_due(*line, now, row["missed"], on_time)
        except (CronSimError, KeyError, ValueError, OSError) as error:
            firing.pause(row, error)
        else:
            firing.add(row, task_types[row["task_type"]], ticks, now)
    await _write(connection, firing, now)
    return len(firing.submissions), firing.more or len(rows) == limit


async def _write(connection: Connection, firing: Firing, now: datetime) -> None:
    if firing.submissions:
        await submit_tasks(connection, firing.submissions, now)
    if firing.moves:
        await connection.execute(_SQL.move_schedules, firing.moves)
    if firing.broken:
        await connection.execute(_SQL.pause_broken_schedules, firing.broken)


async def find_next_schedule(connection: Connection, within_s: float) -> float | None:
    """Return in how many seconds the next schedule is due, if that is within so many."""
    next_s: float | None = await connection.fetchval(_SQL.find_next_schedule, within_s)
    return next_s


def next_times(schedule: SavedSchedule, now: datetime, count: int) -> Sequence[datetime]:
    """Return the next times of a schedule, by its line; of one that is paused, those after now."""
    first = schedule.next_at if schedule.next_at > now and not schedule.paused else None
    times = [] if first is None else [first]
    for tick in ticks_after(schedule.cron, schedule.zone, first or now):
        if len(times) == count:
            break
        times.append(tick)
    return times
