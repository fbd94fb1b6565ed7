"""`assent inbox`: what waits for a member."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from assent.cli.options import CursorOption, JsonOption
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
    from rich.table import Table

    from assent.people.inbox import InboxCounts, InboxItem, InboxPage, InboxQuery


Kind = Literal["approval", "form"]
Sort = Literal["age", "due", "figure"]

OverdueOption = Annotated[bool, typer.Option("--overdue", help="Only what is late.")]
KindOption = Annotated[Kind | None, typer.Option("--kind", help="Only approvals, or only forms.")]
SortOption = Annotated[Sort, typer.Option("--sort", help="The oldest, the next due or the greatest first.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many are shown.")]


def inbox(  # noqa: PLR0913, PLR0917
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    overdue: OverdueOption = False,
    kind: KindOption = None,
    sort: SortOption = "age",
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """Show what waits for a member: their own, that of their roles, and that of the people they stand in for."""
    from assent.bodies.body import Page
    from assent.bodies.instances import InboxItemBody
    from assent.cli.output import print_body
    from assent.people.inbox import InboxQuery

    wanted = InboxQuery(kind=kind, overdue=overdue or None, sort=sort, limit=limit, cursor=cursor)
    page, counts = act(ActorOptions(app, org, user, json), lambda session: _read(session, wanted))
    if json:
        print_body(Page(items=[InboxItemBody.of(item) for item in page.items], next=page.next))
    else:
        _print(page, counts, user)


async def _read(session: ActorSession, wanted: "InboxQuery") -> "tuple[InboxPage, InboxCounts]":
    from assent.people.inbox import count_inbox, read_inbox

    now, directory = session.now(), session.runtime.core.directory
    org_id, reader = session.org_id, session.actor.id
    async with session.reading() as connection:
        page = await read_inbox(connection, org_id, reader, wanted, now, directory=directory)
        return page, await count_inbox(connection, org_id, reader, now, directory=directory)


def _print(page: "InboxPage", counts: "InboxCounts", user: str) -> None:
    from assent.cli.output import console, print_more, print_table

    out = console()
    if page.items:
        print_table(_table(page.items))
    total = [counts.mine, counts.roles, counts.delegated]
    number, late = sum(count.open for count in total), sum(count.overdue for count in total)
    out.print(f"{number} for {user}, {late} overdue" if number else f"Nothing waits for {user}.", style="dim")
    print_more(page.next)


def _table(items: "tuple[InboxItem, ...]") -> "Table":
    from rich.text import Text

    from assent.cli.output import length, moment, one_line, table

    rows = (
        [
            length(item.age),
            Text(moment(item.due_at), "red" if item.overdue else ""),
            one_line(item.title) or item.entity_type or item.workflow,
            f"{item.figure:,f}" if item.figure is not None else "",
            item.node_name,
            item.kind,
            item.on_behalf_of,
            item.claimed_by,
            str(item.request_id),
        ]
        for item in items
    )
    headings = ("age", "due", "title", "figure", "step", "kind", "on behalf of", "claimed by", "request")
    return table(headings, rows, right=("age", "figure"))
