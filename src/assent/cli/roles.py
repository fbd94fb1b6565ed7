"""`assent roles`: what the roles of an org carry, beside what contracts grant them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption
from assent.cli.output import console, print_list
from assent.cli.session import OrgOption, run_in_org

if TYPE_CHECKING:
    from rich.table import Table

    from assent.people.members import Role
    from assent.store.database import Connection

LISTED_MAX: Final = 1_000

app = typer.Typer(no_args_is_help=True, help="Roles: listed; capabilities granted and revoked.")

RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="The role.")]
CapabilitiesArgument = Annotated[
    list[str], typer.Argument(metavar="CAPABILITY…", help="Such as members:manage, workflows:*, or *.")
]


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = LISTED_MAX, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the roles of an org, what each carries, and how many hold it."""

    from assent.bodies.people import RoleBody

    async def work(connection: "Connection", now: datetime) -> "list[Role]":
        from assent.model.cursor import position_of, text_in
        from assent.people.members import list_roles

        return await list_roles(connection, org, position_of(cursor, text_in), limit + 1)

    print_list(
        *(run_in_org(org, work, json=json), limit, RoleBody.of, lambda role: role.role),
        json=json,
        show=_table,
        none="There is no role.",
    )


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


def _table(roles: "Sequence[Role]") -> "Table":
    from assent.cli.output import table

    rows = ([role.role, str(role.members), " ".join(role.capabilities)] for role in roles)
    return table(("role", "held by", "carries"), rows)
