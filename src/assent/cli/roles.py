"""`assent roles`: what the roles of an org carry, beside what contracts grant them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption
from assent.cli.output import print_change, print_items
from assent.cli.remote import Server, get, put
from assent.cli.session import OrgOption, run_in_org

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.people import RoleBody
    from assent.store.database import Connection

app = typer.Typer(no_args_is_help=True, help="Roles: list and show them, grant and revoke capabilities.")

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="The role.")]
CapabilitiesArgument = Annotated[
    list[str], typer.Argument(metavar="CAPABILITY…", help="Such as members:manage, workflows:*, or *.")
]


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = 50, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the roles of an org, what each carries, and how many hold it."""

    async def work(connection: "Connection", now: datetime) -> str:
        from assent.bodies.body import page_text
        from assent.bodies.people import RoleBody
        from assent.model.cursor import position_of, text_in
        from assent.people.members import list_roles

        found = await list_roles(connection, org, position_of(cursor, text_in), limit + 1)
        return page_text(found, limit, RoleBody.of, lambda role: role.role)

    page = run_in_org(org, get("roles", cursor=cursor, limit=limit), work, json=json)
    print_items(page, json=json, show=_table, none="There is no role.")


@app.command()
def show(role: RoleArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Show what a role carries, and how many hold it; an unknown one carries nothing."""

    async def work(connection: "Connection", now: datetime) -> "RoleBody":
        from assent.bodies.people import RoleBody
        from assent.people.members import read_role

        return RoleBody.of(await read_role(connection, org, role))

    _say(run_in_org(org, get("roles", role), work, json=json), json)


@app.command()
def save(
    role: RoleArgument, capabilities: CapabilitiesArgument, org: OrgOption, json: JsonOption = False
) -> None:
    """Have a role carry exactly these capabilities."""
    _set(org, role, lambda carried: set(capabilities), json)


@app.command()
def grant(
    role: RoleArgument, capabilities: CapabilitiesArgument, org: OrgOption, json: JsonOption = False
) -> None:
    """Give a role more capabilities; a role that is new is created."""
    _set(org, role, lambda carried: carried | set(capabilities), json)


@app.command()
def revoke(
    role: RoleArgument, capabilities: CapabilitiesArgument, org: OrgOption, json: JsonOption = False
) -> None:
    """Have a role carry less."""
    _set(org, role, lambda carried: carried - set(capabilities), json)


def _set(org: str, name: str, then: Callable[[set[str]], set[str]], json: bool) -> None:
    async def work(connection: "Connection", now: datetime) -> "RoleBody":
        from assent.bodies.people import RoleBody
        from assent.model.actor import SYSTEM
        from assent.people.members import lock_grants, read_role, set_capabilities

        await lock_grants(connection, org)
        carried = set((await read_role(connection, org, name)).capabilities)
        return RoleBody.of(await set_capabilities(connection, org, name, then(carried), SYSTEM))

    def change(server: Server) -> Any:
        carried = set(server.ask(get("roles", name))["capabilities"])
        return server.ask(put("roles", name, body={"capabilities": sorted(then(carried))}))

    _say(run_in_org(org, change, work, json=json), json)


def _say(role: Any, json: bool) -> None:
    print_change(role, f"{role.role} carries {', '.join(role.capabilities) or 'nothing'}", json=json)


def _table(roles: "Sequence[Any]") -> "Table":
    from assent.cli.output import table

    rows = ([role.role, str(role.members), " ".join(role.capabilities)] for role in roles)
    return table(("role", "held by", "carries"), rows)
