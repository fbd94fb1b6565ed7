"""`assent services`: what the application registers for steps to call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import get
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(no_args_is_help=True, help="Services that steps may call: list them.")


@app.command("list")
@by_member
def list_(
    who: ActorOptions,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the services of the application, by name, with what publishing a step that calls one takes."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.administration import ServiceBody
        from assent.bodies.body import text_of_page

        page = await session.commands.services.list(cursor=cursor, limit=limit)
        return text_of_page(page, ServiceBody.of)

    page = act(who, get("services", cursor=cursor, limit=limit), work)
    print_items(page, json=who.json, show=_table, none="The application registers no service.")


def _table(services: "Sequence[Any]") -> "Table":
    from assent.cli.output import table

    rows = ([one.name, one.base_url, ", ".join(one.operations), one.capability] for one in services)
    return table(("service", "address", "operations", "capability"), rows)
