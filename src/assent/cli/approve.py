"""`assent approve`: decide a request."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from assent.cli.actor_options import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act
from assent.cli.data_options import DataOption, JsonDataOption, given_data
from assent.cli.ids import GivenId, find_one, given_id
from assent.cli.options import JsonOption

if TYPE_CHECKING:
    from assent.runtime import InstanceView

RequestArgument = Annotated[
    GivenId,
    typer.Argument(
        metavar="REQUEST",
        parser=given_id,
        help="The request, as `assent inbox` shows it; the beginning of its id is enough.",
    ),
]
RejectOption = Annotated[bool, typer.Option("--reject", help="Reject it.")]
AbstainOption = Annotated[bool, typer.Option("--abstain", help="Take no side; that never satisfies.")]
AnswerOption = Annotated[str | None, typer.Option("--answer", help="Another answer that the step knows.")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why; it stays in the record.")]
BehalfOption = Annotated[
    str | None, typer.Option("--on-behalf-of", metavar="USER", help="Whom a delegate stands in for.")
]
GroupOption = Annotated[
    str | None, typer.Option("--group", help="Which seat is meant, where somebody has several.")
]


def approve(  # noqa: PLR0913, PLR0917
    request: RequestArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reject: RejectOption = False,
    abstain: AbstainOption = False,
    answer: AnswerOption = None,
    reason: ReasonOption = None,
    on_behalf_of: BehalfOption = None,
    group: GroupOption = None,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    json: JsonOption = False,
) -> None:
    """Approve what somebody is asked, or answer otherwise. Nobody approves what is their own."""
    from assent.cli.instance_text import print_done

    chosen = _chosen(reject=reject, abstain=abstain, answer=answer)
    filled_in = given_data(data, json_data)

    async def work(session: ActorSession) -> "InstanceView":
        return await session.runtime.org(session.org_id, session.actor).approvals.decide(
            await _request_id(session, request),
            chosen,
            reason=reason,
            on_behalf_of=on_behalf_of,
            group=group,
            data=filled_in,
        )

    print_done(chosen, act(ActorOptions(app, org, user, json), work), json=json)


def _chosen(*, reject: bool, abstain: bool, answer: str | None) -> str:
    said = [
        *(["rejected"] if reject else []),
        *(["abstained"] if abstain else []),
        *([answer] if answer else []),
    ]
    if len(said) > 1:
        raise typer.BadParameter("expected at most one of --reject, --abstain and --answer")
    return said[0] if said else "approved"


async def _request_id(session: ActorSession, given: GivenId) -> UUID:
    from assent.approvals.requests import find_requests
    from assent.model.mutation import Refused, Rejection

    async with session.reading() as connection:
        found = await find_one(connection, session.org_id, "request", given, find_requests)
    if found is None:
        message = f"no approval request {given.text}"
        hint = "`assent inbox` shows what you are asked; forms are answered by `assent advance`"
        raise Refused(Rejection("NOT_FOUND", message, ("request",), hint=hint))
    return found
