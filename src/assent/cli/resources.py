"""`assent resources`: what tasks use that can do only so much at a time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import get
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.operations import ResourceBody

app = typer.Typer(no_args_is_help=True, help="Resources that tasks use: list and show them.")


@app.command("list")
@by_member
def list_(who: ActorOptions, limit: LimitOption = 50, cursor: CursorOption = None) -> None:
    """List the resources that workers have declared, by name. Takes the capability `tasks:read`."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.operations import ResourceBody

        page = await session.commands.resources.list(cursor=cursor, limit=limit)
        return text_of_page(page, ResourceBody.of)

    page = act(who, get("resources", cursor=cursor, limit=limit), work)
    print_items(page, json=who.json, show=_table, none="No worker has declared a resource.")


@app.command()
@by_member
def show(
    who: ActorOptions, name: Annotated[str, typer.Argument(metavar="NAME", help="The resource.")]
) -> None:
    """Show a resource: how many tasks may run with it, how many do and wait. Takes the capability `tasks:read`."""
    from assent.cli.output import print_body, print_table

    async def work(session: ActorSession) -> "ResourceBody":
        from assent.bodies.operations import ResourceBody

        return ResourceBody.of(await session.commands.resources.get(name))

    found = act(who, get("resources", name), work)
    if who.json:
        print_body(found)
    else:
        print_table(_table([found]))


def _table(resources: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, table

    rows = (
        [
            one.name,
            "any" if one.max_concurrency is None else str(one.max_concurrency),
            str(one.running),
            str(one.waiting),
            moment(one.declared_at),
        ]
        for one in resources
    )
    return table(("resource", "at a time", "running", "waiting", "declared"), rows)
