"""`assent members`: the people and service accounts of an org — added, listed, changed, deactivated."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption
from assent.cli.output import console, print_body, print_change, print_items
from assent.cli.remote import get, given, patch, post
from assent.cli.session import OrgOption, run_in_org

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.people import MemberBody
    from assent.cli.remote import ServerCall
    from assent.store.database import Connection

app = typer.Typer(no_args_is_help=True, help="Members: add, list, show, change and deactivate them.")

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="As tokens and keys name them.")]
NameOption = Annotated[str | None, typer.Option("--name", help="What people call them.")]
EmailOption = Annotated[str | None, typer.Option("--email", help="Where messages reach them.")]
ManagerOption = Annotated[str | None, typer.Option("--manager", help="The member they report to.")]
RoleOption = Annotated[
    list[str] | None, typer.Option("--role", help="A role that they hold; may be given several times.")
]


@app.command()
def add(  # noqa: PLR0913, PLR0917
    user: UserArgument,
    org: OrgOption,
    role: RoleOption = None,
    name: NameOption = None,
    email: EmailOption = None,
    manager: ManagerOption = None,
    service: Annotated[bool, typer.Option("--service", help="A program, not a person.")] = False,
    json: JsonOption = False,
) -> None:
    """Add a member. Contracts and `assent roles` say what their roles may do."""

    kind: Any = "service_account" if service else "user"
    roles = tuple(dict.fromkeys(role or ()))

    async def work(connection: "Connection", now: datetime) -> "MemberBody":
        from assent.bodies.people import MemberBody
        from assent.model.actor import SYSTEM
        from assent.people.members import NewMember, create_member

        new = NewMember(user, name or user, kind, email, roles, manager)
        return MemberBody.of(await create_member(connection, org, new, SYSTEM, now))

    body = given(user_id=user, name=name or user, kind=kind, email=email, roles=roles, manager_id=manager)
    _say("added", run_in_org(org, post("members", body=body), work, json=json), json)


@app.command("list")
def list_(
    org: OrgOption,
    role: Annotated[str | None, typer.Option("--role", help="Only who holds this role.")] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """List the members of an org, by their ids."""

    async def work(connection: "Connection", now: datetime) -> str:
        from assent.bodies.body import page_text
        from assent.bodies.people import MemberBody
        from assent.model.cursor import position_of, text_in
        from assent.people.members import MemberFilter, list_members

        after = position_of(cursor, text_in)
        found = await list_members(connection, org, MemberFilter(role), after, limit + 1)
        return page_text(found, limit, MemberBody.of, lambda member: member.user_id)

    page = run_in_org(org, get("members", role=role, cursor=cursor, limit=limit), work, json=json)
    print_items(page, json=json, show=_table, none="There is no such member.")


@app.command()
def show(user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Show a member, also one who has left."""

    async def work(connection: "Connection", now: datetime) -> "MemberBody":
        from assent.bodies.people import MemberBody
        from assent.people.members import read_member

        return MemberBody.of(await read_member(connection, org, user))

    member = run_in_org(org, get("members", user), work, json=json)
    if json:
        print_body(member)
    else:
        console().print(_table([member]))


@app.command()
def change(  # noqa: PLR0913, PLR0917
    user: UserArgument,
    org: OrgOption,
    role: RoleOption = None,
    name: NameOption = None,
    email: EmailOption = None,
    manager: ManagerOption = None,
    json: JsonOption = False,
) -> None:
    """Change a member; what is not named stays. `--role` names all the roles that they hold from now on."""
    roles = tuple(dict.fromkeys(role)) if role else None
    changes = given(name=name, email=email, manager_id=manager, roles=roles)
    _change(org, user, patch("members", user, body=changes), changes, "changed", json)


@app.command()
def remove(user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Let a member go: they are out at once, with their keys; what they did keeps their name."""
    _change(org, user, post("members", user, "deactivate"), {"active": False}, "deactivated", json)


@app.command()
def restore(user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Make a removed member active again."""
    changes = {"active": True}
    _change(org, user, patch("members", user, body=changes), changes, "took back", json)


def _change(  # noqa: PLR0913, PLR0917
    org: str, user: str, route: "ServerCall", changes: dict[str, Any], done: str, json: bool
) -> None:
    async def work(connection: "Connection", now: datetime) -> "MemberBody":
        from assent.bodies.people import MemberBody
        from assent.model.actor import SYSTEM
        from assent.people.members import change_member

        return MemberBody.of(await change_member(connection, org, user, changes, SYSTEM, now))

    _say(done, run_in_org(org, route, work, json=json), json)


def _say(done: str, member: Any, json: bool) -> None:
    roles = f" as {', '.join(member.roles)}" if member.active and member.roles else ""
    print_change(member, f"{done} {member.user_id}{roles}", json=json)


def _table(members: "Sequence[Any]") -> "Table":
    from assent.cli.output import table

    rows = []
    for member in members:
        words = [
            *(["program"] if member.kind == "service_account" else []),
            *([] if member.active else ["gone"]),
        ]
        rest = (member.manager_id or "", member.email or "", " ".join(words))
        rows.append([member.user_id, member.name, " ".join(member.roles), *rest])
    return table(("member", "name", "roles", "manager", "e-mail", ""), rows)
