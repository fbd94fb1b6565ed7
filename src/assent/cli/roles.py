"""`assent roles`: what the roles of an org carry, beside what contracts grant them."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assent.cli.options import JsonOption
from assent.cli.output import console, print_json
from assent.cli.session import OrgOption, run_in_org

if TYPE_CHECKING:
    from assent.people.members import Role
    from assent.store.database import Connection

LISTED_MAX: Final = 1_000

app = typer.Typer(no_args_is_help=True, help="Roles: listed; capabilities granted and revoked.")

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="The role.")]
CapabilitiesArgument = Annotated[
    list[str], typer.Argument(metavar="CAPABILITY…", help="Such as members:manage, workflows:*, or *.")
]


@app.command("list")
def list_(org: OrgOption, json: JsonOption = False) -> None:
    """List the roles of an org, what each carries, and how many hold it."""

    async def work(connection: "Connection", now: datetime) -> "list[Role]":
        from assent.people.members import list_roles

        return await list_roles(connection, org, None, LISTED_MAX)

    found = run_in_org(org, work)
    if json:
        print_json([asdict(role) for role in found])
    else:
        _print_table(found)


@app.command()
def grant(role: RoleArgument, capabilities: CapabilitiesArgument, org: OrgOption) -> None:
    """Give a role more capabilities; a role that is new is created."""
    _set(org, role, lambda carried: carried | set(capabilities))


@app.command()
def revoke(role: RoleArgument, capabilities: CapabilitiesArgument, org: OrgOption) -> None:
    """Have a role carry less."""
    _set(org, role, lambda carried: carried - set(capabilities))


def _set(org: str, name: str, then: Callable[[set[str]], set[str]]) -> None:
    async def work(connection: "Connection", now: datetime) -> "Role":
        from assent.model.actor import SYSTEM
        from assent.people.members import read_role, set_capabilities

        carried = set((await read_role(connection, org, name)).capabilities)
        return await set_capabilities(connection, org, name, then(carried), SYSTEM)

    role = run_in_org(org, work)
    console().print(f"✓ {role.role} carries {', '.join(role.capabilities) or 'nothing'}")


def _print_table(roles: "list[Role]") -> None:
    from rich.table import Table

    table = Table("role", "held by", "carries", box=None)
    for role in roles:
        table.add_row(role.role, str(role.members), " ".join(role.capabilities))
    console().print(table)
