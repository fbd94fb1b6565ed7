"""`assent filters`: filters of entities and of the inbox that a member, or the org, has saved under a name."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, LimitOption, yaml_object
from assent.cli.remote import delete as delete_route
from assent.cli.remote import get, put
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.administration import FilterBody

app = typer.Typer(
    no_args_is_help=True, help="Saved filters of entities and of the inbox: list, show, save and delete them."
)

OfArgument = Annotated[str, typer.Argument(metavar="OF", help="An entity type, such as invoice, or inbox.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The filter.")]
SharedOption = Annotated[
    bool, typer.Option("--shared", help="The one that all of the org use; takes filters:share.")
]


@app.command("list")
@by_member
def list_(
    who: ActorOptions,
    filter_of: Annotated[
        str | None, typer.Option("--of", help="Only those of this entity type, or of the inbox.")
    ] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the filters of a member and of the org, by what they are of and name."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.administration import FilterBody
        from assent.bodies.body import page_text
        from assent.kernel.saved_filters import filter_position_in
        from assent.model.cursor import position_of

        after = position_of(cursor, filter_position_in)
        found = await session.commands.filters.list(filter_of, after=after, limit=limit + 1)
        return page_text(found, limit, FilterBody.of, lambda each: each.position(session.actor.id))

    route = get("filters", filter_of=filter_of, cursor=cursor, limit=limit)
    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="No filter is saved.")


@app.command()
@by_member
def show(who: ActorOptions, filter_of: OfArgument, name: NameArgument) -> None:
    """Show a filter: the member's own before the org's."""

    async def work(session: ActorSession) -> "FilterBody":
        from assent.bodies.administration import FilterBody

        return FilterBody.of(await session.commands.filters.get(filter_of, name))

    _print(act(who, get("filters", filter_of, name), work), who.json, "")


@app.command()
@by_member
def save(
    who: ActorOptions,
    filter_of: OfArgument,
    name: NameArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The filter as YAML or JSON; - for standard input.")
    ],
    shared: SharedOption = False,
) -> None:
    """Save a filter, in place of the one of its name; it is checked now, and when it is used."""
    said = yaml_object(file)

    async def work(session: ActorSession) -> "FilterBody":
        from assent.bodies.administration import FilterBody

        return FilterBody.of(await session.commands.filters.save(filter_of, name, said, shared=shared))

    route = put("filters", filter_of, name, body={"filter": said, "shared": shared})
    _print(act(who, route, work), who.json, "✓ saved ")


@app.command()
@by_member
def delete(
    who: ActorOptions, filter_of: OfArgument, name: NameArgument, shared: SharedOption = False
) -> None:
    """Delete the member's own filter of a name, or the org's."""

    async def work(session: ActorSession) -> "FilterBody":
        from assent.bodies.administration import FilterBody

        return FilterBody.of(await session.commands.filters.delete(filter_of, name, shared=shared))

    route = replace(delete_route("filters", filter_of, name), query={"shared": True} if shared else {})
    _print(act(who, route, work), who.json, "✓ deleted ")


def _print(found: Any, json: bool, done: str) -> None:
    from assent.cli.output import console, print_body, print_table, safe

    if json:
        print_body(found)
    elif done:
        console().print(f"{done}{safe(found.name)} of {safe(found.filter_of)}", markup=False)
    else:
        print_table(_table([found]))


def _table(found: "Sequence[Any]") -> "Table":
    import orjson

    from assent.cli.output import table

    rows = [
        [each.filter_of, each.name, "org" if each.shared else "own", orjson.dumps(each.filter).decode()]
        for each in found
    ]
    return table(("of", "name", "whose", "filter"), rows)
