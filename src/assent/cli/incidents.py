"""`assent incidents`: instances that an error paused, and dead letters, with the commands that help."""

from collections.abc import Sequence
from json import loads
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from assent.cli.options import CursorOption, JsonOption
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
    from rich.table import Table

    from assent.operations.incidents import Incident, IncidentFilter, IncidentGroup

Kind = Literal["instance", "event", "effect", "result", "task"]

EachOption = Annotated[bool, typer.Option("--each", help="List incidents one by one, and not in groups.")]
KindOption = Annotated[Kind | None, typer.Option("--kind", help="Only instances, or dead letters of a kind.")]
CodeOption = Annotated[str | None, typer.Option("--code", help="Only incidents with this code.")]
DefinitionOption = Annotated[
    str | None, typer.Option("--definition", help="Only incidents of this workflow.")
]
NodeOption = Annotated[str | None, typer.Option("--node", help="Only incidents at the node of this name.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many are listed one by one.")]


def incidents(  # noqa: PLR0913, PLR0917
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    each: EachOption = False,
    kind: KindOption = None,
    code: CodeOption = None,
    definition: DefinitionOption = None,
    node: NodeOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """Show what waits for an operator, grouped by error; `--each`, or a filter, lists incidents one by one.

    Takes the capability `workflows:retry`.
    """
    from assent.operations.incidents import IncidentFilter

    who, wanted = ActorOptions(app, org, user, json), IncidentFilter(kind, code, definition, node)
    if each or wanted != IncidentFilter():
        _show_each(who, wanted, cursor, limit)
    else:
        _show_groups(who)


def _show_groups(who: ActorOptions) -> None:
    from assent.bodies.operations import IncidentGroupBody
    from assent.cli.output import console, print_list

    groups = act(who, lambda session: session.commands.operations.incidents())
    print_list(
        *(groups, max(1, len(groups)), IncidentGroupBody.of, lambda group: str(group.examples[0])),
        json=who.json,
        show=_group_table,
        none="There are no incidents.",
    )
    if groups and not who.json:
        console().print("To see a group one by one: assent incidents --code CODE", style="dim")


def _show_each(who: ActorOptions, wanted: "IncidentFilter", cursor: str | None, limit: int) -> None:
    from assent.bodies.body import page_text
    from assent.bodies.operations import IncidentBody
    from assent.cli.output import console, print_json, print_more
    from assent.model.cursor import position_of, time_and_id_in

    async def work(session: ActorSession) -> "list[Incident]":
        after = position_of(cursor, time_and_id_in)
        return await session.commands.operations.list_incidents(wanted, after=after, limit=limit + 1)

    found = act(who, work)
    page = loads(page_text(found, limit, IncidentBody.of, lambda one: (one.since.isoformat(), str(one.id))))
    if who.json:
        print_json(page)
        return
    for incident in found[:limit]:
        _print_one(incident)
    if not found:
        console().print("There is no such incident.", style="dim")
    print_more(page["next"])


def _print_one(incident: "Incident") -> None:
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


def _group_table(groups: "Sequence[IncidentGroup]") -> "Table":
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
