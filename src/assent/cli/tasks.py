"""`assent tasks`: submit background work, read it, end it from outside, cancel it, retry it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from assent.cli.options import (
    CursorOption,
    DataOption,
    JsonDataOption,
    LimitOption,
    given_data,
    yaml_object,
)
from assent.cli.remote import get, given, post
from assent.cli.session import ActorOptions, ActorSession, act, act_then_read, by_member

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from assent.bodies.operations import SubmittedBody, TaskBody, TaskTreeBody
    from assent.tasks.views import TaskView

app = typer.Typer(
    no_args_is_help=True, help="Tasks: submit, list, show, complete, fail, cancel and retry them."
)

_DONE: Final = {"cancel": "cancelled", "retry": "retried", "complete": "completed", "fail": "failed"}

TaskArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The task, by its whole id.")]


class TaskStatusFilter(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    BLOCKED = "blocked"
    BACKGROUND = "background"
    RETRYING = "retrying"
    DONE = "done"
    CANCELLED = "cancelled"
    DEAD = "dead"


@app.command()
@by_member
def submit(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    type: Annotated[
        str, typer.Argument(metavar="TYPE", help="A task of the application, such as report.build.")
    ],
    data: DataOption = None,
    json_data: JsonDataOption = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="Identifies this task of its type for good: again, it is the same task."),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", min=0, max=255, help="Higher runs sooner; as its type says without it."),
    ] = None,
    run_at: Annotated[
        datetime | None, typer.Option("--run-at", help="Not before; at once without it.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option("--delay", help="Not before so long after now, such as 15m.")
    ] = None,
    resource: Annotated[
        list[str] | None, typer.Option("--resource", help="What it uses besides what its type says.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", help="How many of its --rate-key may start in a period, such as 100/1m."),
    ] = None,
    rate_key: Annotated[str | None, typer.Option("--rate-key", help="What --rate counts together.")] = None,
) -> None:
    """Submit a task; a worker runs it.

    Takes `tasks:submit`, or the capability that the application names for the type.
    """
    from assent.cli.output import print_change

    input = given_data(data, json_data)
    at = run_at.astimezone() if run_at else None
    limit = _rate(rate, rate_key)

    async def work(session: ActorSession) -> "SubmittedBody":
        from assent.bodies.operations import SubmittedBody
        from assent.runtime.rights import require_capability

        require_capability(session.actor, session.app.capability_to_submit(type))
        options = _options(key=key, priority=priority, run_at=at, delay=delay, resource=resource, limit=limit)
        task = await session.commands.tasks.submit(type, input, **options)
        return SubmittedBody(id=task.id)

    body = given(type=type, input=input, key=key, priority=priority, run_at=at, delay=delay, rate_limit=limit)
    route = post("tasks", body=body | ({"resources": resource} if resource else {}))
    submitted = act(who, route, work)
    print_change(submitted, f"submitted {submitted.id}", json=who.json)


@app.command("submit-batch")
@by_member
def submit_batch(
    who: ActorOptions,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="`tasks` and `then`, as YAML or JSON; - for standard input."),
    ],
) -> None:
    """Submit tasks, and one that runs once all of them have ended. Prints the id of that one.

    Takes what each of its types takes: `tasks:submit`, or the capability that the application names.
    """
    from assent.cli.output import print_change

    batch = yaml_object(file)

    async def work(session: ActorSession) -> "SubmittedBody":
        from assent.bodies.operations import SubmittedBody
        from assent.runtime.rights import require_capability
        from assent.runtime.task_commands import read_batch

        tasks, then = read_batch(batch)
        for type in sorted({task.type for task in (*tasks, then)}):
            require_capability(session.actor, session.app.capability_to_submit(type))
        return SubmittedBody(id=(await session.commands.tasks.submit_batch(tasks, then)).id)

    submitted = act(who, post("tasks", "batches", body=batch), work)
    print_change(submitted, f"submitted {submitted.id}", json=who.json)


def _rate(rate: str | None, key: str | None) -> Mapping[str, Any] | None:
    """Return the rate limit that was given as `100/1m`; raise `BadParameter`."""
    if rate is None and key is None:
        return None
    number, slash, period = (rate or "").partition("/")
    if not (slash and number.isdecimal() and period and key):
        raise typer.BadParameter(
            f"expected --rate such as 100/1m, and a --rate-key, found {rate!r} and {key!r}"
        )
    return {"max": int(number), "per": period, "key": key}


def _options(
    *, resource: Sequence[str] | None, limit: Mapping[str, Any] | None, **rest: Any
) -> Mapping[str, Any]:
    from assent.model.job import RateLimit

    given_limit = RateLimit(limit["max"], per=limit["per"], key=limit["key"]) if limit is not None else None
    return {**rest, "resources": tuple(resource or ()), "rate_limit": given_limit}


@app.command("list")
@by_member
def list_(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    status: Annotated[TaskStatusFilter | None, typer.Option("--status", help="Only these.")] = None,
    type: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    instance: Annotated[UUID | None, typer.Option("--instance", help="Only of this instance.")] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List tasks, newest first. Takes the capability `tasks:read`."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.operations import TaskItemBody

        page = await session.commands.tasks.list(
            status=status.value if status else None,
            type=type,
            instance_id=instance,
            cursor=cursor,
            limit=limit,
        )
        return text_of_page(page, TaskItemBody.of)

    route = get("tasks", status=status, type=type, instance_id=instance, cursor=cursor, limit=limit)
    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no task.")


@app.command()
@by_member
def show(who: ActorOptions, task: TaskArgument) -> None:
    """Show a task with its input, its output and every attempt. Takes the capability `tasks:read`."""
    found = act(who, get("tasks", task), lambda session: _read(session, task))
    _print(found, who.json)


@app.command()
@by_member
def tree(who: ActorOptions, task: TaskArgument) -> None:
    """Show a task with all that is below it, and the status of each. Takes the capability `tasks:read`."""
    from assent.cli.output import console, print_body, print_table, status_text, table

    async def work(session: ActorSession) -> "TaskTreeBody":
        from assent.bodies.operations import TaskTreeBody

        return TaskTreeBody.of(await session.commands.tasks.tree(task))

    found = act(who, get("tasks", task, "tree"), work)
    if who.json:
        print_body(found)
        return
    rows: Iterable[Sequence[str | Text]] = (
        [
            str("  " * one.depth + one.type),
            str(one.id),
            status_text(one.status),
            f"{one.attempts}/{one.attempts_max}",
        ]
        for one in found.tasks
    )
    print_table(table(("type", "task", "status", "tried"), rows))
    shown, total = len(found.tasks), sum(found.counts.values())
    if shown < total:
        console().print(f"{total - shown} more are not shown.", style="dim")


@app.command()
@by_member
def log(who: ActorOptions, task: TaskArgument, limit: LimitOption = 50, cursor: CursorOption = None) -> None:
    """Show the lines that the attempts at a task wrote. Takes the capability `tasks:read`."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.operations import LogLineBody

        page = await session.commands.tasks.log(task, cursor=cursor, limit=limit)
        return text_of_page(page, LogLineBody.of)

    page = act(who, get("tasks", task, "log", cursor=cursor, limit=limit), work)
    print_items(page, json=who.json, show=_log_table, none="There is no line.")


@app.command()
@by_member
def cancel(who: ActorOptions, task: TaskArgument) -> None:
    """Cancel a task; the result of a running one is ignored. Takes the capability `tasks:cancel`."""

    async def work(session: ActorSession) -> None:
        from assent.runtime.task_commands import CANCEL_TASKS

        await _find(session, task, CANCEL_TASKS)
        await session.commands.tasks.cancel(task)

    _command(who, task, "cancel", work)


@app.command()
@by_member
def complete(
    who: ActorOptions, task: TaskArgument, data: DataOption = None, json_data: JsonDataOption = None
) -> None:
    """Complete a task that is in the background; the data is its output. Takes the capability `tasks:complete`."""
    output = given_data(data, json_data) if data or json_data is not None else None

    async def work(session: ActorSession) -> None:
        from assent.runtime.task_commands import END_TASKS

        await _find(session, task, END_TASKS)
        await session.commands.tasks.complete(task, output)

    _command(who, task, "complete", work, {"output": output})


@app.command()
@by_member
def fail(
    who: ActorOptions,
    task: TaskArgument,
    message: Annotated[str, typer.Option("--message", help="Why it failed.")],
    code: Annotated[str, typer.Option("--code", help="The code of the failure.")] = "TASK_FAILED",
    retryable: Annotated[bool, typer.Option("--retryable", help="A further attempt may help.")] = False,
) -> None:
    """Fail a task that is in the background. Takes the capability `tasks:complete`."""

    async def work(session: ActorSession) -> None:
        from assent.runtime.task_commands import END_TASKS

        await _find(session, task, END_TASKS)
        await session.commands.tasks.fail(task, message, code=code, retryable=retryable)

    _command(who, task, "fail", work, {"message": message, "code": code, "retryable": retryable})


@app.command()
@by_member
def retry(who: ActorOptions, task: TaskArgument) -> None:
    """Retry a dead task, with new attempts. Takes the capability `tasks:retry`.

    A task that a step awaited is retried by its step: `assent instances retry`.
    """

    async def work(session: ActorSession) -> None:
        from assent.model.mutation import Refused, Rejection
        from assent.runtime.task_commands import RETRY_TASKS

        found = await _find(session, task, RETRY_TASKS)
        if found.status != "dead":
            message = f"task {task} is {found.status}, and only a dead task can be retried"
            raise Refused(Rejection("TASK_NOT_DEAD", message, ("task_id",)))
        await session.commands.tasks.retry(task)

    _command(who, task, "retry", work)


async def _find(session: ActorSession, task_id: UUID, capability: str) -> "TaskView":
    """Return a task of the org, whether or not the member may read it; raise `Refused` without the capability."""
    from assent.model.mutation import Refused, Rejection
    from assent.runtime.rights import require_capability
    from assent.tasks.views import read_task

    async with session.reading() as connection:
        task = await read_task(connection, session.org_id, task_id)
    if task is None:
        raise Refused(Rejection("NOT_FOUND", f"no task {task_id}", ("task_id",)))
    require_capability(session.actor, capability)
    return task


async def _read(session: ActorSession, task_id: UUID) -> "TaskBody":
    from assent.bodies.operations import TaskBody

    return TaskBody.of(await session.commands.tasks.get(task_id))


def _command(
    who: ActorOptions,
    task_id: UUID,
    command: str,
    work: Callable[[ActorSession], Awaitable[None]],
    body: Mapping[str, Any] | None = None,
) -> None:
    """Run a command on a task, and print the task then if the member may read it."""
    from assent.cli.output import print_change

    route = post("tasks", task_id, command, body=body)
    task = act_then_read(who, route, work, lambda session: _read(session, task_id))
    print_change(task, f"{_DONE[command]} {task_id}", json=who.json)


def _print(task: Any, json: bool) -> None:
    from assent.cli.output import (
        console,
        moment,
        one_line,
        print_body,
        print_table,
        safe,
        table,
    )

    if json:
        print_body(task)
        return
    print_table(_table([task]))
    out = console()
    if task.progress is not None:
        out.print(f"  progress: {task.progress.fraction:.0%} {safe(one_line(task.progress.message))}")
    for name, value in (("input", task.input), ("output", task.output)):
        if value is not None:
            out.print(f"  {name}: {safe(one_line(_text(value)))}")
    attempts = (
        [
            f"  {one.attempt}",
            one.outcome,
            moment(one.started_at),
            moment(one.ended_at),
            str(one.worker_id) if one.worker_id else None,
            one.code,
            one_line(one.error),
        ]
        for one in task.tried
    )
    if task.tried:
        print_table(table(("  attempt", "outcome", "began", "ended", "node", "code", "error"), attempts))


def _log_table(lines: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows = ([str(line.attempt), moment(line.at), line.level, one_line(line.message)] for line in lines)
    return table(("attempt", "at", "level", "line"), rows)


def _text(value: Any) -> str:
    import orjson

    return orjson.dumps(value, default=str).decode()


def _table(tasks: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, status_text, table

    rows = (
        [
            str(task.id),
            task.type,
            status_text(task.status),
            f"{task.attempts}/{task.attempts_max}",
            moment(task.run_at),
            moment(task.ended_at),
            task.key,
            task.submitted_by,
            str(task.instance_id or ""),
        ]
        for task in tasks
    )
    return table(("task", "type", "status", "tried", "runs at", "ended", "key", "by", "instance"), rows)
