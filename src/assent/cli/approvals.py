"""`assent approvals`: decide approval requests, and pass them on."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from assent.cli.options import DataOption, GivenId, JsonDataOption, JsonOption, find_one, given_data, given_id
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
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
    from assent.cli.instance_page import print_done

    async def find_and_work(session: ActorSession) -> "InstanceView":
        return await work(session, await _request_id(session, given))

    print_done(done, act(who, find_and_work), json=who.json)


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
