"""`assent inbox`: what waits for a member."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import JsonBody, Server, get
from assent.cli.session import BY_KEY, ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.instances import InboxBody


Kind = Literal["approval", "form", "question"]
Sort = Literal["age", "due", "figure"]

OverdueOption = Annotated[bool, typer.Option("--overdue", help="Only what is late.")]
KindOption = Annotated[
    Kind | None, typer.Option("--kind", help="Only approvals, only forms, or only questions.")
]
SortOption = Annotated[Sort, typer.Option("--sort", help="The oldest, the next due or the greatest first.")]


@by_member
def inbox(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    overdue: OverdueOption = False,
    kind: KindOption = None,
    sort: SortOption = "age",
    saved: Annotated[
        str | None, typer.Option("--saved", metavar="NAME", help="A saved filter, in place of one.")
    ] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """Show what waits for a member: their own, that of their roles, and that of the people they stand in for."""
    from assent.cli.output import print_body

    wanted = {"kind": kind, "overdue": overdue or None, "sort": sort, "limit": limit, "cursor": cursor}

    async def work(session: ActorSession) -> "InboxBody":
        return await _read(session, wanted, saved)

    def ask(server: Server) -> Any:
        page = server.ask(get("inbox", **wanted, saved=saved))
        return JsonBody(page=page, counts=None if who.json else server.ask(get("inbox", "counts")))

    found = act(who, ask, work)
    if who.json:
        print_body(found.page)
    else:
        _print(found.page, found.counts, who.user_id)


async def _read(session: ActorSession, wanted: Mapping[str, Any], saved: str | None) -> "InboxBody":
    from assent.bodies.body import Page
    from assent.bodies.instances import InboxBody, InboxCountsBody, InboxItemBody
    from assent.people.inbox import InboxQuery

    approvals = session.commands.approvals
    page = await approvals.inbox(InboxQuery(**wanted), saved=saved)
    items = [InboxItemBody.of(item) for item in page.items]
    counts = InboxCountsBody.of(await approvals.count_inbox())
    return InboxBody(page=Page(items=items, next=page.next), counts=counts)


def _print(page: Any, counts: Any, user: str) -> None:
    from assent.cli.output import console, print_more, print_table

    out, of = console(), "the member of the key" if user == BY_KEY else user
    if page["items"]:
        print_table(_table(page["items"]))
    total = [counts.mine, counts.roles, counts.delegated]
    number, late = sum(count.open for count in total), sum(count.overdue for count in total)
    out.print(f"{number} for {of}, {late} overdue" if number else f"Nothing waits for {of}.", style="dim")
    print_more(page["next"])


def _title(item: Any) -> str:
    from assent.cli.output import one_line

    title = one_line(item.title) or item.entity_type or item.workflow
    return f"{title}: {one_line(item.question)}" if item.question else str(title)


def _figure(item: Any) -> str:
    if item.figure is None:
        return ""
    return item.figure_text or "" if item.currency else f"{Decimal(item.figure):,f}"


def _table(items: "Sequence[Any]") -> "Table":
    from rich.text import Text

    from assent.cli.output import length, moment, table

    now = datetime.now(UTC)
    rows = (
        [
            length(now - item.asked_at),
            Text(moment(item.due_at), "red" if item.overdue else ""),
            _title(item),
            _figure(item),
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
