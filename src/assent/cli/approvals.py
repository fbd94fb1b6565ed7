"""`assent approvals`: decide approval requests, and pass them on."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import DataOption, GivenId, JsonDataOption, find_one, given_data, given_id
from assent.cli.remote import Server, get, given, post
from assent.cli.session import ActorOptions, ActorSession, act, after_the_command, by_member, if_readable

if TYPE_CHECKING:
    from assent.bodies.instances import ApprovalBody, ApprovalToDecideBody, DecidedBody
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
@by_member
def show(who: ActorOptions, request: RequestArgument) -> None:
    """Show a request: the version that is to be approved, its approvers and their decisions."""
    from assent.cli.instance_page import print_request
    from assent.cli.output import print_body

    async def work(session: ActorSession) -> "ApprovalToDecideBody":
        from assent.bodies.instances import ApprovalToDecideBody

        request_id = await find_request_id(session, request)
        details = await session.commands.approvals.get(request_id, with_answers=True)
        return ApprovalToDecideBody.of_details(details)

    found = act(who, lambda server: server.ask(get("approvals", request)), work)
    if who.json:
        print_body(found)
    else:
        print_request(found)


@app.command()
@by_member
def decide(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    request: RequestArgument,
    answer: AnswerArgument,
    reason: ReasonOption = None,
    on_behalf_of: BehalfOption = None,
    group: GroupOption = None,
    data: DataOption = None,
    json_data: JsonDataOption = None,
) -> None:
    """Decide a request: `assent approvals decide ID approved`. Originators do not decide their own documents."""
    fields = given_data(data, json_data)

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.decide(
            request_id, answer, reason=reason, on_behalf_of=on_behalf_of, group=group, data=fields
        )

    body = given(answer=answer, reason=reason, on_behalf_of=on_behalf_of, group=group, data=fields or None)
    _command(who, request, ("decide", body), work, answer)


@app.command()
@by_member
def claim(who: ActorOptions, request: RequestArgument) -> None:
    """Claim a request that several people could decide, so that the others leave it alone."""

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.claim(request_id)

    _command(who, request, ("claim", None), work, "claimed")


@app.command()
@by_member
def release(who: ActorOptions, request: RequestArgument) -> None:
    """Release a request that was claimed."""

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.release(request_id)

    _command(who, request, ("release", None), work, "released")


@app.command()
@by_member
def reassign(
    who: ActorOptions,
    request: RequestArgument,
    from_user: Annotated[str, typer.Argument(metavar="FROM", help="The approver who is asked now.")],
    to_user: Annotated[str, typer.Argument(metavar="TO", help="The member who is asked instead.")],
    reason: ReasonOption = None,
) -> None:
    """Ask another member instead of an approver."""

    async def work(session: ActorSession, request_id: UUID) -> "InstanceView":
        return await session.commands.approvals.reassign(
            request_id, from_user=from_user, to_user=to_user, reason=reason
        )

    body = given(from_user=from_user, to_user=to_user, reason=reason)
    _command(who, request, ("reassign", body), work, f"reassigned to {to_user}")


def _command(
    who: ActorOptions,
    given: GivenId,
    command: tuple[str, Any],
    work: "Callable[[ActorSession, UUID], Awaitable[InstanceView]]",
    done: str,
) -> None:
    """Run a command on the request that an id names, and print where its instance stands then.

    `command` is its name and its body over HTTP.
    """
    from assent.cli.instance_page import print_stand
    from assent.cli.output import print_body

    async def find_and_work(session: ActorSession) -> "DecidedBody | None":
        from assent.bodies.instances import DecidedBody, InstanceBody
        from assent.model.mutation import Refused

        request_id = await find_request_id(session, given)
        view = await if_readable(session, await work(session, request_id))
        with after_the_command():
            try:
                request = await _read(session, request_id)
            except Refused:
                return None
        return DecidedBody(request=request, instance=InstanceBody.of(view) if view else None)

    def ask(server: Server) -> Any:
        return server.ask(post("approvals", given, command[0], body=command[1]))

    found = act(who, ask, find_and_work)
    if who.json:
        print_body(found)
    else:
        print_stand(done, found.instance if found else None)


async def _read(session: ActorSession, request_id: UUID) -> "ApprovalBody":
    """Return a request that the member is asked about, or whose instance they may read; else raise `Refused`."""
    from assent.bodies.instances import ApprovalBody

    return ApprovalBody.of_details(await session.commands.approvals.get(request_id))


async def find_request_id(session: ActorSession, given: GivenId) -> UUID:
    from assent.approvals.requests import find_requests
    from assent.model.mutation import Refused, Rejection

    async with session.reading() as connection:
        found = await find_one(connection, session.org_id, "request", given, find_requests)
    if found is None:
        message = f"no approval request {given.text}"
        hint = "`assent inbox` shows what you are asked; forms are completed by `assent instances advance`"
        raise Refused(Rejection("NOT_FOUND", message, ("request",), hint=hint))
    return found
