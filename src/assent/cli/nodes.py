"""`assent nodes`: the processes of the fleet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assent.cli.options import CursorOption, LimitOption
from assent.cli.output import print_items
from assent.cli.remote import get
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table


@by_member
def nodes(who: ActorOptions, limit: LimitOption = 50, cursor: CursorOption = None) -> None:
    """List the processes of workers and servers, and those that were lost.

    Takes the capability `operations:read`.
    """

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.operations import FleetNodeBody

        page = await session.commands.operations.nodes(cursor=cursor, limit=limit)
        return text_of_page(page, FleetNodeBody.of)

    page = act(who, get("nodes", cursor=cursor, limit=limit), work)
    print_items(page, json=who.json, show=_table, none="No process runs.")


def _table(nodes: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, status_text, table

    rows = (
        [
            one.host,
            str(one.pid),
            status_text(one.status),
            one.version,
            " ".join(["http"] * one.serves + list(one.duties)),
            moment(one.seen_at),
            str(one.id),
        ]
        for one in nodes
    )
    return table(("host", "pid", "status", "version", "runs", "seen", "id"), rows)
