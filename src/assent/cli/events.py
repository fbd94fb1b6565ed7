"""`assent events`: emit an event under a key, and list what is still to be processed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import DataOption, JsonDataOption, given_data
from assent.cli.remote import get, given, post
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.body import Page
    from assent.bodies.operations import EventBody, OpenItemBody

app = typer.Typer(no_args_is_help=True, help="Events: emit one, list what is still to be processed.")

CauseOption = Annotated[
    str | None,
    typer.Option("--cause", help="What caused it, such as the sender's own id: one cause is one event."),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many of each queue.")]


@app.command("emit")
@by_member
def emit_event(
    who: ActorOptions,
    key: Annotated[str, typer.Argument(help="What workflows wait for, such as payment:2026-17.")],
    data: DataOption = None,
    json_data: JsonDataOption = None,
    cause: CauseOption = None,
) -> None:
    """Emit an event to the steps that wait for a key, now or later. Takes the capability `events:emit`."""
    from assent.cli.output import console, print_body

    payload = given_data(data, json_data)
    route = post("events", key, body=given(data=payload or None, cause=cause))
    emitted = act(who, route, lambda session: _emit(session, key, payload, cause))
    if who.json:
        print_body(emitted)
    else:
        said = (
            "emitted; a worker processes it"
            if emitted.new
            else "this cause was emitted before; nothing happens"
        )
        console().print(f"{key}: {said}")


async def _emit(session: ActorSession, key: str, data: dict[str, Any], cause: str | None) -> "EventBody":
    from assent.bodies.operations import EventBody
    from assent.runtime.rights import may_emit

    may_emit(session.actor)
    events = session.commands.events
    return EventBody(key=key, new=await events.emit(key, data or None, cause=cause))


@app.command("list")
@by_member
def list_events(who: ActorOptions, limit: LimitOption = 50) -> None:
    """List what is open, queue by queue: events to process, effects to send, events kept for steps that will wait.

    Takes the capability `workflows:retry`. `assent health` counts them.
    """
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> "Page[OpenItemBody]":
        from assent.bodies.body import Page
        from assent.bodies.operations import OpenItemBody

        found = await session.commands.events.list_open(limit=limit)
        return Page(items=[OpenItemBody.of(item) for item in found])

    page = act(who, get("operations", "open", limit=limit), work)
    print_items(page, json=who.json, show=_table, none="Nothing is open.")


def _table(found: "Sequence[Any]") -> "Table":
    from assent.cli.output import Cell, length, moment, one_line, status_text, table

    now = datetime.now(UTC)
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
