"""`assent approvals`: decide approval requests, and pass them on."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from assent.cli.options import DataOption, GivenId, JsonDataOption, JsonOption, find_one, given_data, given_id
from assent.cli.session import (
    ActorOptions,
    ActorSession,
    AppOption,
    OrgOption,
    UserOption,
    act,
    after_the_command,
    if_readable,
)

if TYPE_CHECKING:
    from assent.approvals.requests import ApprovalDetails
    from assent.runtime import InstanceView


app = typer.Typer(no_args_is_help=True, help="Approval requests: decide them, and pass them on.")

RequestArgument = Annotated[
    GivenId,
    typer.Argument(
        metavar="REQUEST",
        parser=given_id,
        help="The request, as `assent inbox` shows it; the beginning of its id is enough.",
    ),
]
AnswerArgument = Annotated[
    str,
    typer.Argument(
        help="approved, rejected, abstained (which never counts as approval), or an answer of the step."
    ),
]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why; it is kept with the decision.")]
BehalfOption = Annotated[
    str | None,
    typer.Option("--on-behalf-of", metavar="USER", help="The approver in whose place a delegate decides."),
]
GroupOption = Annotated[
    str | None, typer.Option("--group", help="Which seat is meant, where the approver has several.")
]


@app.command()
def show(
    request: RequestArgument, app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False
) -> None:
    """Show a request: the version that is to be approved, its approvers and their decisions."""
    from assent.bodies.instances import ApprovalBody
    from assent.cli.instance_page import print_request
    from assent.cli.output import print_body

    async def work(session: ActorSession) -> "ApprovalDetails":
        return await _read(session, await _request_id(session, request))

    details = act(ActorOptions(app, org, user, json), work)
    if json:
        print_body(ApprovalBody.of_details(details))
    else:
        print_request(details)


@app.command()
def decide(  # noqa: PLR0913, PLR0917
    request: RequestArgument,
    answer: AnswerArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: ReasonOption = None,
    on_behalf_of: BehalfOption = None,
    group: GroupOption = None,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    json: JsonOption = False,
) -> None:
    """Decide a request: `assent approvals decide ID approved`. Originators do not decide their own documents."""
    fields = given_data(data, json_data)

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.decide(
            request_id, answer, reason=reason, on_behalf_of=on_behalf_of, group=group, data=fields
        )

    _command(ActorOptions(app, org, user, json), request, work, answer)


@app.command()
def claim(
    request: RequestArgument, app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False
) -> None:
    """Claim a request that several people could decide, so that the others leave it alone."""

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.claim(request_id)

    _command(ActorOptions(app, org, user, json), request, work, "claimed")


@app.command()
def release(
    request: RequestArgument, app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False
) -> None:
    """Release a request that was claimed."""

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.release(request_id)

    _command(ActorOptions(app, org, user, json), request, work, "released")


@app.command()
def reassign(  # noqa: PLR0913, PLR0917
    request: RequestArgument,
    from_user: Annotated[str, typer.Argument(metavar="FROM", help="The approver who is asked now.")],
    to_user: Annotated[str, typer.Argument(metavar="TO", help="The member who is asked instead.")],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: ReasonOption = None,
    json: JsonOption = False,
) -> None:
    """Ask another member instead of an approver."""

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.reassign(
            request_id, from_user=from_user, to_user=to_user, reason=reason
        )

    _command(ActorOptions(app, org, user, json), request, work, f"reassigned to {to_user}")


def _command(
    who: ActorOptions,
    given: GivenId,
    work: "Callable[[ActorSession, UUID], Awaitable[InstanceView]]",
    done: str,
) -> None:
    """Run a command on the request that an id names, and print where its instance stands then."""
    from assent.bodies.instances import ApprovalBody, DecidedBody, InstanceBody
    from assent.cli.instance_page import print_stand
    from assent.cli.output import print_body
    from assent.model.mutation import Refused

    async def find_and_work(session: ActorSession) -> "tuple[ApprovalDetails | None, InstanceView | None]":
        request_id = await _request_id(session, given)
        view = await if_readable(session, await work(session, request_id))
        with after_the_command():
            try:
                return await _read(session, request_id), view
            except Refused:
                return None, view

    details, view = act(who, find_and_work)
    if not who.json:
        print_stand(done, view)
    elif details is None:
        print_body(None)
    else:
        instance = InstanceBody.of(view) if view else None
        print_body(DecidedBody(request=ApprovalBody.of_details(details), instance=instance))


async def _read(session: ActorSession, request_id: UUID) -> "ApprovalDetails":
    """Return a request that the member is asked about, or whose instance they may read; else raise `Refused`."""
    from assent.approvals.requests import read_request
    from assent.runtime.readers import may_read_request

    async with session.reading() as connection:
        details = await read_request(connection, session.org_id, request_id)
        assert details is not None, "requests are never deleted"
        await may_read_request(session.runtime.core, connection, details.request, session.actor)
    return details


async def _request_id(session: ActorSession, given: GivenId) -> UUID:
    from assent.approvals.requests import find_requests
    from assent.model.mutation import Refused, Rejection

    async with session.reading() as connection:
        found = await find_one(connection, session.org_id, "request", given, find_requests)
    if found is None:
        message = f"no approval request {given.text}"
        hint = "`assent inbox` shows what you are asked; forms are completed by `assent instances advance`"
        raise Refused(Rejection("NOT_FOUND", message, ("request",), hint=hint))
    return found
