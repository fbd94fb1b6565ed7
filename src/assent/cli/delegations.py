"""`assent delegations`: members who decide in the place of others, with scope and period."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import get, given, post
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.people import DelegationBody

app = typer.Typer(no_args_is_help=True, help="Delegations: list, create and revoke them.")


@app.command("list")
@by_member
def list_(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    of: Annotated[
        str | None, typer.Option("--user", help="Those from and to this member; your own without it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Those of all members.")] = False,
    open: Annotated[bool, typer.Option("--open", help="Only those that hold now, or will.")] = False,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List delegations, newest first. Those of others take the capability `approvals:delegate`."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.people import DelegationBody

        page = await session.commands.delegations.list(
            of, everyone=every, only_open=open, cursor=cursor, limit=limit
        )
        return text_of_page(page, DelegationBody.of)

    route = get("delegations", user=of, all=every, open=open, cursor=cursor, limit=limit)
    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no such delegation.")


@app.command()
@by_member
def create(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    to_user: Annotated[str, typer.Argument(metavar="TO", help="The member who stands in.")],
    from_user: Annotated[
        str | None,
        typer.Option("--from", metavar="USER", help="The delegator; the member who acts without it."),
    ] = None,
    starts_at: Annotated[datetime | None, typer.Option("--starts-at", help="At once without it.")] = None,
    ends_at: Annotated[
        datetime | None, typer.Option("--ends-at", help="Until it is revoked without it.")
    ] = None,
    entity_type: Annotated[
        list[str] | None, typer.Option("--entity-type", help="Only for these; may be given several times.")
    ] = None,
    workflow: Annotated[
        list[str] | None, typer.Option("--workflow", help="Only for these; may be given several times.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why; it is kept with the delegation.")
    ] = None,
) -> None:
    """Delegate to a member, for everything or for some entity types and workflows.

    For another member, and to a third, it takes the capability `approvals:delegate`.
    """

    wanted = given(
        from_user=from_user,
        starts_at=starts_at.astimezone() if starts_at else None,
        ends_at=ends_at.astimezone() if ends_at else None,
        entity_types=entity_type or [],
        workflows=workflow or [],
        reason=reason,
    )

    async def work(session: ActorSession) -> "DelegationBody":
        from assent.bodies.people import DelegationBody

        return DelegationBody.of(await session.commands.delegations.create(to_user, **wanted))

    route = post("delegations", body={"to_user": to_user, **wanted})
    made = act(who, route, work)
    _print(f"{made.to_user} stands in for {made.from_user}: {made.id}", made, who.json)


@app.command()
@by_member
def revoke(
    who: ActorOptions,
    delegation: Annotated[UUID, typer.Argument(metavar="ID", help="The delegation, by its whole id.")],
) -> None:
    """Revoke a delegation: your own, or another's with the capability `approvals:delegate`."""

    async def work(session: ActorSession) -> "DelegationBody":
        from assent.bodies.people import DelegationBody

        return DelegationBody.of(await session.commands.delegations.revoke(delegation))

    route = post("delegations", delegation, "revoke")
    _print(f"revoked {delegation}", act(who, route, work), who.json)


def _print(done: str, delegation: Any, json: bool) -> None:
    from assent.cli.output import print_change

    print_change(delegation, done, json=json)


def _table(delegations: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows = (
        [
            str(one.id),
            one.from_user,
            one.to_user,
            moment(one.starts_at),
            moment(one.ends_at),
            ", ".join((*one.entity_types, *one.workflows)) or "everything",
            moment(one.revoked_at),
            one_line(one.reason),
        ]
        for one in delegations
    )
    return table(("delegation", "from", "to", "starts", "ends", "about", "revoked", "why"), rows)
