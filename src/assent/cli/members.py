"""`assent members`: the people and service accounts of an org — taken in, listed, changed, let go."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption
from assent.cli.output import console, print_body, print_list
from assent.cli.session import OrgOption, run_in_org

if TYPE_CHECKING:
    from rich.table import Table

    from assent.people.members import KeptMember
    from assent.store.database import Connection

LISTED_MAX: Final = 1_000

app = typer.Typer(no_args_is_help=True, help="Members: taken in, listed, changed, let go.")

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

    async def work(connection: "Connection", now: datetime) -> "KeptMember":
        from assent.model.actor import SYSTEM
        from assent.people.members import NewMember, create_member

        kind: Any = "service_account" if service else "user"
        new = NewMember(user, name or user, kind, email, tuple(dict.fromkeys(role or ())), manager)
        return await create_member(connection, org, new, SYSTEM, now)

    _say("took in", run_in_org(org, work, json=json), json)


@app.command("list")
def list_(
    org: OrgOption,
    role: Annotated[str | None, typer.Option("--role", help="Only who holds this role.")] = None,
    limit: LimitOption = LISTED_MAX,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """List the members of an org, by their ids."""

    from assent.bodies.people import MemberBody

    async def work(connection: "Connection", now: datetime) -> "list[KeptMember]":
        from assent.model.cursor import position_of, text_in
        from assent.people.members import MemberFilter, list_members

        after = position_of(cursor, text_in)
        return await list_members(connection, org, MemberFilter(role), after, limit + 1)

    print_list(
        *(run_in_org(org, work, json=json), limit, MemberBody.of, lambda member: member.user_id),
        json=json,
        show=_table,
        none="There is no such member.",
    )


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
    given = {"name": name, "email": email, "manager_id": manager, "roles": roles}
    _change(org, user, {key: value for key, value in given.items() if value is not None}, "changed", json)


@app.command()
def remove(user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Let a member go: they are out at once, with their keys; what they did keeps their name."""
    _change(org, user, {"active": False}, "let go", json)


@app.command()
def restore(user: UserArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Make a removed member active again."""
    _change(org, user, {"active": True}, "took back", json)


def _change(org: str, user: str, changes: dict[str, Any], done: str, json: bool) -> None:
    async def work(connection: "Connection", now: datetime) -> "KeptMember":
        from assent.model.actor import SYSTEM
        from assent.people.members import change_member

        return await change_member(connection, org, user, changes, SYSTEM, now)

    _say(done, run_in_org(org, work, json=json), json)


def _say(done: str, member: "KeptMember", json: bool) -> None:
    from assent.bodies.people import MemberBody

    if json:
        print_body(MemberBody.of(member))
    else:
        roles = f" as {', '.join(member.roles)}" if member.active and member.roles else ""
        console().print(f"✓ {done} {member.user_id}{roles}")


def _table(members: "Sequence[KeptMember]") -> "Table":
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
