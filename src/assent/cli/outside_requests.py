"""`assent outside-requests`: what was asked of outside parties, and what came back."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, LimitOption, yaml_object
from assent.cli.remote import get, given, post
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.requests import (
        OutsideRequestDetails,
        PushedBody,
        RevokedLinksBody,
        UploadLinkBody,
    )

app = typer.Typer(no_args_is_help=True, help="Requests to outside parties: list and show them, push results.")

RequestArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The request, by its whole id.")]


class OutsideStatusFilter(StrEnum):
    PENDING = "pending"
    PARTIAL = "partial"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class ResultWord(StrEnum):
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"


@app.command("list")
@by_member
def list_(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    status: Annotated[OutsideStatusFilter | None, typer.Option("--status", help="Only these.")] = None,
    instance: Annotated[UUID | None, typer.Option("--instance", help="Only of this instance.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Only of this workflow and step, such as kyc.screening.")
    ] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List requests, newest first: those of entities and flows that you may read."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.requests import OutsideRequestBody

        page = await session.commands.requests.list(
            status=status.value if status else None,
            instance_id=instance,
            name=name,
            cursor=cursor,
            limit=limit,
        )
        return text_of_page(page, OutsideRequestBody.of)

    route = get(
        "outside-requests", status=status, instance_id=instance, name=name, cursor=cursor, limit=limit
    )
    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no such request.")


@app.command()
@by_member
def show(who: ActorOptions, request: RequestArgument) -> None:
    """Show a request: what was sent, the bundles that arrived, and their items."""
    from assent.cli.output import (
        console,
        moment,
        one_line,
        print_body,
        print_table,
        safe,
        status_text,
        table,
    )

    async def work(session: ActorSession) -> "OutsideRequestDetails":
        from assent.bodies.requests import OutsideRequestDetails

        return OutsideRequestDetails.of_details(await session.commands.requests.get(request))

    found = act(who, get("outside-requests", request), work)
    if who.json:
        print_body(found)
        return
    print_table(_table([found]))
    console().print(f"  asked: {safe(one_line(str(found.asked)))}")
    if found.deliveries:
        rows = (
            [
                f"  {moment(one.received_at)}",
                one.key,
                one.source,
                one.pushed_by,
                status_text(one.status),
                "late" if one.late else "",
                one_line(one.error),
            ]
            for one in found.deliveries
        )
        print_table(table(("  arrived", "key", "by way of", "by", "", "", "error"), rows))
    if found["items"]:
        rows = (
            [f"  {one.cargo or ''}", one.kind, status_text(one.status), one_line(one.error)]
            for one in found["items"]
        )
        print_table(table(("  item", "kind", "", "error"), rows))


@app.command()
@by_member
def push(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    request: RequestArgument,
    key: Annotated[
        str | None, typer.Option("--key", help="The sender's own id of the bundle: each takes effect once.")
    ] = None,
    cargo: Annotated[
        list[str] | None, typer.Option("--item", help="An item that came; may be given several times.")
    ] = None,
    status: Annotated[
        ResultWord, typer.Option("--status", help="The result of the request.")
    ] = ResultWord.COMPLETED,
    error: Annotated[str | None, typer.Option("--error", help="Why it failed.")] = None,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", metavar="FILE", help="The whole bundle as JSON or YAML, or -.")
    ] = None,
) -> None:
    """Push a result of a request, as its outside party would. Takes the capability `results:push`."""
    from assent.cli.output import print_change

    if (bundle is None) == (key is None):
        raise typer.BadParameter("expected --key, or a whole --bundle")
    if bundle is not None:
        data = yaml_object(bundle)
    else:
        items = [{"cargo": one} for one in cargo or []]
        data = given(key=key, status=status.value, items=items, error=error)

    async def work(session: ActorSession) -> "PushedBody":
        return await _push(session, request, data)

    route = post("outside-requests", request, "results", body=data)
    pushed = act(who, route, work)
    print_change(pushed, f"{pushed.outcome}: {pushed.key}", json=who.json)


@app.command("upload-link")
@by_member
def upload_link(
    who: ActorOptions,
    request: RequestArgument,
    days: Annotated[int, typer.Option("--days", min=1, max=365, help="How long it holds.")] = 30,
) -> None:
    """Make a link by which the documents of a request are handed in without an account. Takes `documents:write`."""
    from assent.cli.output import console, print_body

    async def work(session: ActorSession) -> "UploadLinkBody":
        from assent.bodies.requests import UploadLinkBody

        made = await session.commands.requests.upload_link(request, days=days)
        return UploadLinkBody(id=made.id, url=made.url, expires_at=made.expires_at)

    route = post("outside-requests", request, "upload-links", body={"days": days})
    made = act(who, route, work)
    if who.json:
        print_body(made)
    else:
        console().print(made.url, soft_wrap=True, highlight=False)


@app.command("revoke-links")
@by_member
def revoke_upload_links(who: ActorOptions, request: RequestArgument) -> None:
    """Revoke all upload links of a request, also the one that went out with it. Takes `documents:write`."""
    from assent.cli.output import print_change

    async def work(session: ActorSession) -> "RevokedLinksBody":
        from assent.bodies.requests import RevokedLinksBody

        return RevokedLinksBody(revoked=await session.commands.requests.revoke_upload_links(request))

    route = post("outside-requests", request, "upload-links", "revoke")
    done = act(who, route, work)
    print_change(done, f"{done.revoked} revoked", json=who.json)


async def _push(session: ActorSession, request_id: UUID, data: dict[str, Any]) -> "PushedBody":
    from assent.bodies.requests import PushedBody
    from assent.model.mutation import Refused, Rejection
    from assent.model.outside_request import parse_bundle
    from assent.runtime.rights import PUSH_RESULTS, require_capability

    require_capability(session.actor, PUSH_RESULTS)
    bundle, problems = parse_bundle(data)
    if bundle is None:
        raise Refused(Rejection.of(problems))
    outcome = await session.commands.requests.push_bundle(request_id, bundle, "python")
    return PushedBody(request_id=request_id, key=bundle.key, outcome=outcome)


def _table(requests: Sequence[Any]) -> "Table":
    from assent.cli.output import moment, one_line, status_text, table

    rows = (
        [
            one.id,
            one.name,
            status_text(one.status),
            f"{one.received} of {one.expected}",
            str(one.failed or ""),
            moment(one.created_at),
            moment(one.expires_at),
            one.instance_id,
            one_line(one.error),
        ]
        for one in requests
    )
    headings = ("request", "name", "status", "came", "failed", "asked", "expires", "instance", "error")
    return table(headings, rows, right=("came", "failed"))
