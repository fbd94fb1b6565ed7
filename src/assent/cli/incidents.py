"""`assent incidents`: instances that an error paused, and dead letters, with the commands that help."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import get, given
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table


Kind = Literal["instance", "event", "effect", "result", "task"]

EachOption = Annotated[bool, typer.Option("--each", help="List incidents one by one, and not in groups.")]
KindOption = Annotated[Kind | None, typer.Option("--kind", help="Only instances, or dead letters of a kind.")]
CodeOption = Annotated[str | None, typer.Option("--code", help="Only incidents with this code.")]
DefinitionOption = Annotated[
    str | None, typer.Option("--definition", help="Only incidents of this workflow.")
]
NodeOption = Annotated[str | None, typer.Option("--node", help="Only incidents at the node of this name.")]


@by_member
def incidents(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    each: EachOption = False,
    kind: KindOption = None,
    code: CodeOption = None,
    definition: DefinitionOption = None,
    node: NodeOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """Show what waits for an operator, grouped by error; `--each`, or a filter, lists incidents one by one.

    Takes the capability `workflows:retry`.
    """
    wanted = given(kind=kind, code=code, definition=definition, node=node)
    if each or wanted:
        _show_each(who, wanted, cursor, limit)
    else:
        _show_groups(who)


def _show_groups(who: ActorOptions) -> None:
    from assent.cli.output import console, print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import page_text
        from assent.bodies.operations import IncidentGroupBody

        groups = await session.commands.operations.incidents()
        return page_text(
            groups, max(1, len(groups)), IncidentGroupBody.of, lambda group: str(group.examples[0])
        )

    page = act(who, get("operations", "incidents"), work)
    print_items(page, json=who.json, show=_group_table, none="There are no incidents.")
    if page["items"] and not who.json:
        console().print("To see a group one by one: assent incidents --code CODE", style="dim")


def _show_each(who: ActorOptions, wanted: dict[str, Any], cursor: str | None, limit: int) -> None:
    from assent.cli.output import console, print_body, print_more

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import page_text
        from assent.bodies.operations import IncidentBody
        from assent.model.cursor import position_of, time_and_id_in
        from assent.operations.incidents import IncidentFilter

        after = position_of(cursor, time_and_id_in)
        operations = session.commands.operations
        found = await operations.list_incidents(IncidentFilter(**wanted), after=after, limit=limit + 1)
        return page_text(found, limit, IncidentBody.of, lambda one: (one.since.isoformat(), str(one.id)))

    page = act(who, get("operations", "incidents", "all", **wanted, cursor=cursor, limit=limit), work)
    if who.json:
        print_body(page)
        return
    for incident in page["items"]:
        _print_one(incident)
    if not page["items"]:
        console().print("There is no such incident.", style="dim")
    print_more(page["next"])


def _print_one(incident: Any) -> None:
    from assent.cli.output import console, moment, one_line, safe

    out = console()
    version = f" version {incident.definition_version}" if incident.definition_version else ""
    place = f" at {incident.node}" if incident.node else ""
    about = f"{incident.kind} {incident.id}  {incident.definition or incident.what or ''}{version}{place}"
    out.print(f"{safe(incident.code)}  {safe(about)}  since {moment(incident.since)}")
    if incident.message:
        out.print(f"  {safe(one_line(incident.message))}", style="dim")
    for way in incident.ways_out:
        out.print(f"  {way.command}")


def _group_table(groups: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows = (
        [
            *(group.code, group.kind, group.definition, group.node, str(group.number)),
            *(moment(group.first_at), moment(group.last_at), str(group.examples[0])),
            one_line(group.message),
        ]
        for group in groups
    )
    headings = ("code", "kind", "definition", "node", "number", "first", "last", "newest", "message")
    return table(headings, rows, right=("number",))
