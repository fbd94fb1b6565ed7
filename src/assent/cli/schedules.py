"""`assent schedules`: cron lines that start tasks: make, list, show, pause, resume, run and delete them."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, LimitOption, yaml_object
from assent.cli.output import print_body, print_change, print_items, print_table
from assent.cli.remote import delete as delete_at
from assent.cli.remote import get, post, put
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.operations import SubmittedBody
    from assent.bodies.schedules import NextTimesBody, ScheduleBody
    from assent.runtime.schedule_commands import ScheduleCommands
    from assent.schedules.schedules import SavedSchedule

app = typer.Typer(
    no_args_is_help=True, help="Schedules: make, list, show, pause, resume, run and delete them."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.")]

Change = Callable[["ScheduleCommands"], Awaitable["SavedSchedule"]]


@app.command("list")
@by_member
def list_(who: ActorOptions, limit: LimitOption = 50, cursor: CursorOption = None) -> None:
    """List the schedules of the org with their next times. Takes the capability `schedules:read`."""

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.schedules import ScheduleBody

        page = await session.commands.schedules.list(cursor=cursor, limit=limit)
        return text_of_page(page, ScheduleBody.of)

    page = act(who, get("schedules", cursor=cursor, limit=limit), work)
    print_items(page, json=who.json, show=_table, none="There is no schedule.")


@app.command()
@by_member
def show(who: ActorOptions, name: NameArgument) -> None:
    """Show a schedule. Takes the capability `schedules:read`."""
    found = act(who, get("schedules", name), _changed(lambda commands: commands.get(name)))
    if who.json:
        print_body(found)
    else:
        print_table(_table([found]))


@app.command("next")
@by_member
def next_(
    who: ActorOptions,
    name: NameArgument,
    count: Annotated[int, typer.Option("--count", min=1, max=100, help="How many times.")] = 5,
) -> None:
    """List the next times of a schedule. Takes the capability `schedules:read`."""
    from assent.cli.output import console, moment

    async def work(session: ActorSession) -> "NextTimesBody":
        from assent.bodies.schedules import NextTimesBody

        times = await session.commands.schedules.next(name, count=count)
        return NextTimesBody(name=name, times=list(times))

    found = act(who, get("schedules", name, "next", count=count), work)
    if who.json:
        print_body(found)
        return
    for at in found.times:
        console().print(moment(datetime.fromisoformat(at)))


@app.command()
@by_member
def save(
    who: ActorOptions,
    name: NameArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The schedule as YAML or JSON; - for standard input.")
    ],
) -> None:
    """Save a schedule, in place of the one of its name.

    Takes the capability `schedules:manage`, and the one to submit its task.
    """
    schedule = yaml_object(file)
    saved = act(
        who,
        put("schedules", name, body=schedule),
        _changed(lambda commands: commands.save(name, schedule)),
    )
    print_change(saved, f"saved {saved.name}", json=who.json)


@app.command()
@by_member
def pause(who: ActorOptions, name: NameArgument) -> None:
    """Pause a schedule: its times start no task. Takes the capability `schedules:manage`."""
    changed = act(who, post("schedules", name, "pause"), _changed(lambda commands: commands.pause(name)))
    print_change(changed, f"paused {changed.name}", json=who.json)


@app.command()
@by_member
def resume(who: ActorOptions, name: NameArgument) -> None:
    """Resume a schedule from its next time on. Takes the capability `schedules:manage`."""
    changed = act(who, post("schedules", name, "resume"), _changed(lambda commands: commands.resume(name)))
    print_change(changed, f"resumed {changed.name}", json=who.json)


@app.command()
@by_member
def run(who: ActorOptions, name: NameArgument) -> None:
    """Start the task of a schedule at once; its times stay.

    Takes the capability `schedules:manage`, and the one to submit its task.
    """

    async def work(session: ActorSession) -> "SubmittedBody":
        from assent.bodies.operations import SubmittedBody

        return SubmittedBody(id=await session.commands.schedules.run(name))

    submitted = act(who, post("schedules", name, "run"), work)
    print_change(submitted, f"submitted {submitted.id}", json=who.json)


@app.command()
@by_member
def delete(who: ActorOptions, name: NameArgument) -> None:
    """Delete a schedule; its tasks stay. Takes the capability `schedules:manage`."""
    gone = act(who, delete_at("schedules", name), _changed(lambda commands: commands.delete(name)))
    print_change(gone, f"deleted {gone.name}", json=who.json)


def _changed(change: Change) -> Callable[[ActorSession], Awaitable["ScheduleBody"]]:
    """Return the work of a command that returns one schedule."""

    async def work(session: ActorSession) -> "ScheduleBody":
        from assent.bodies.schedules import ScheduleBody

        return ScheduleBody.of(await change(session.commands.schedules))

    return work


def _table(schedules: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, table

    rows = (
        [
            one.name,
            one.task,
            one.cron,
            one.zone,
            one.missed,
            "paused" if one.paused else moment(one.next_at),
            moment(one.last_at),
            one.problem or ("declared" if one.declared else ""),
        ]
        for one in schedules
    )
    return table(("schedule", "task", "line", "zone", "missed", "next", "last", ""), rows)
