"""`assent events`: emit an event under a key, and list what is still to be processed."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import DataOption, JsonDataOption, JsonOption, given_data
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
    from rich.table import Table

    from assent.operations.queues import OpenItem

app = typer.Typer(no_args_is_help=True, help="Events: tell that something happened, see what waits.")

CauseOption = Annotated[
    str | None,
    typer.Option("--cause", help="What it comes of, such as the sender's own id: one cause is one event."),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many of each queue.")]


@app.command("emit")
def emit_event(  # noqa: PLR0913, PLR0917
    key: Annotated[str, typer.Argument(help="What workflows wait for, such as payment:2026-17.")],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    cause: CauseOption = None,
    json: JsonOption = False,
) -> None:
    """Emit an event to the steps that wait for a key, now or later. Takes the capability `events:emit`."""
    from assent.bodies.operations import EventBody
    from assent.cli.output import console, print_body

    given = given_data(data, json_data)
    new = act(ActorOptions(app, org, user, json), lambda session: _emit(session, key, given, cause))
    if json:
        print_body(EventBody(key=key, new=new))
    else:
        said = "emitted; a worker processes it" if new else "this cause was emitted before; nothing happens"
        console().print(f"{key}: {said}")


async def _emit(session: ActorSession, key: str, data: dict[str, Any], cause: str | None) -> bool:
    from assent.runtime.rights import may_emit

    may_emit(session.actor)
    events = session.commands.events
    return await events.emit(key, data or None, cause=cause)


@app.command("list")
def list_events(
    app: AppOption, org: OrgOption, user: UserOption, limit: LimitOption = 50, json: JsonOption = False
) -> None:
    """List what is open, queue by queue: events to process, effects to send, events kept for steps that will wait.

    Takes the capability `workflows:retry`. `assent health` counts them.
    """
    from assent.bodies.body import Page
    from assent.bodies.operations import OpenItemBody
    from assent.cli.output import console, print_body, print_table

    found, now = act(ActorOptions(app, org, user, json), lambda session: _read(session, limit))
    if json:
        print_body(Page(items=[OpenItemBody.of(item) for item in found]))
    elif found:
        print_table(_table(found, now))
    else:
        console().print("Nothing is open.", style="dim")


async def _read(session: ActorSession, limit: int) -> "tuple[Sequence[OpenItem], datetime]":
    from assent.operations.queues import list_open
    from assent.runtime.rights import may_operate

    may_operate(session.actor, "retry")
    async with session.reading() as connection:
        return await list_open(connection, session.org_id, limit), session.now()


def _table(found: "Sequence[OpenItem]", now: datetime) -> "Table":
    from assent.cli.output import Cell, length, moment, one_line, status_text, table

    rows: list[list[Cell]] = [
        [
            item.queue,
            item.event_key or item.what,
            status_text(item.status),
            length(now - item.created_at),
            str(item.attempts or ""),
            moment(item.retry_at),
            str(item.instance_id or ""),
            one_line(item.error),
        ]
        for item in found
    ]
    headings = ("queue", "what", "status", "age", "attempts", "next try", "instance", "error")
    return table(headings, rows, right=("age", "attempts"))
