"""`assent requirements`: the documents that are required, waived and begun again, and the rejection codes."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, LimitOption
from assent.cli.remote import ServerCall, get, given, post, put
from assent.cli.session import ActorOptions, ActorSession, act, act_then_read, by_member

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.documents import (
        CreatedDocument,
        RejectionCodeBody,
        RejectionCodes,
        RequirementCountsBody,
        RequirementDetailsBody,
        SolicitedBody,
    )

app = typer.Typer(no_args_is_help=True, help="Required documents: create, list, show, waive and reset them.")

RequirementArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The requirement, by its whole id.")]
CodeOption = Annotated[
    str | None, typer.Option("--code", help="Only those whose last rejection has this code.")
]
DueOption = Annotated[
    datetime | None,
    typer.Option(
        "--due-before", formats=["%Y-%m-%d"], help="Only those that are open and due before this day."
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why.")]


class RequirementStatusFilter(StrEnum):
    MISSING = "missing"
    REQUESTED = "requested"
    RECEIVED = "received"
    IN_QA = "in_qa"
    VERIFIED = "verified"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WAIVED = "waived"


class RequiredStateChoice(StrEnum):
    RECEIVED = "received"
    VERIFIED = "verified"


@app.command()
@by_member
def create(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Whose document it is.")],
    doc_type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as passport.")],
    instance: Annotated[
        UUID | None, typer.Option("--instance", help="The instance that requires it.")
    ] = None,
    state: Annotated[RequiredStateChoice, typer.Option("--state")] = RequiredStateChoice.VERIFIED,
    due: Annotated[datetime | None, typer.Option("--due", formats=["%Y-%m-%d"])] = None,
) -> None:
    """Require a document of a subject. Takes `requirements:manage`."""
    from assent.cli.output import print_change

    body = given(
        subject=subject,
        doc_type=doc_type,
        instance_id=instance,
        required_state=state.value,
        due_date=due.date() if due else None,
    )

    async def work(session: ActorSession) -> "CreatedDocument":
        from assent.bodies.documents import CreatedDocument

        made = await session.commands.requirements.create(**body)
        return CreatedDocument(id=made.id)

    created = act(who, post("requirements", body=body), work)
    print_change(created, f"required {created.id}", json=who.json)


@app.command("list")
@by_member
def list_(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    status: Annotated[RequirementStatusFilter | None, typer.Option("--status", help="Only these.")] = None,
    instance: Annotated[UUID | None, typer.Option("--instance", help="Only of this instance.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only of this subject.")] = None,
    type: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    code: CodeOption = None,
    due_before: DueOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List requirements, newest first. Takes `documents:read`."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.documents import RequirementBody

        found = await session.commands.requirements.list(
            instance_id=instance,
            subject=subject,
            doc_type=type,
            status=status.value if status else None,
            code=code,
            due_before=due_before.date() if due_before else None,
            cursor=cursor,
            limit=limit,
        )
        return text_of_page(found, RequirementBody.of_requirement)

    route = get(
        "requirements",
        instance_id=instance,
        subject=subject,
        doc_type=type,
        status=status,
        code=code,
        due_before=due_before.date() if due_before else None,
        cursor=cursor,
        limit=limit,
    )
    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There is no such requirement.")


@app.command()
@by_member
def count(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    instance: Annotated[UUID | None, typer.Option("--instance", help="Only of this instance.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only of this subject.")] = None,
    type: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    code: CodeOption = None,
    due_before: DueOption = None,
) -> None:
    """Count the requirements of a list by status, exact up to 10,000 of each. Takes `documents:read`."""
    from assent.cli.output import print_body, print_table, status_text, table

    which = given(
        instance_id=instance,
        subject=subject,
        doc_type=type,
        code=code,
        due_before=due_before.date() if due_before else None,
    )

    async def work(session: ActorSession) -> "RequirementCountsBody":
        from assent.bodies.documents import RequirementCountsBody

        return RequirementCountsBody.of(await session.commands.requirements.count(**which))

    found = act(who, get("requirements", "count", **which), work)
    if who.json:
        print_body(found)
        return
    rows: list[list[Any]] = [[status_text(name), f"{number:,}"] for name, number in found.statuses.items()]
    print_table(table(("status", "requirements"), rows))


@app.command()
@by_member
def solicit(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Whose documents they are.")],
    doc_types: Annotated[list[str], typer.Argument(metavar="TYPE...", help="Such as passport.")],
    instance: Annotated[
        UUID | None, typer.Option("--instance", help="The instance that requires them.")
    ] = None,
    notify: Annotated[str | None, typer.Option("--notify", help="The e-mail address to write to.")] = None,
    webhook: Annotated[str | None, typer.Option("--webhook", help="The URL to post to.")] = None,
) -> None:
    """Ask an outside party for documents, in one request. Takes `requirements:manage`."""
    from assent.cli.output import print_change

    body = given(subject=subject, doc_types=doc_types, instance_id=instance, notify=notify, webhook=webhook)

    async def work(session: ActorSession) -> "SolicitedBody":
        from assent.bodies.documents import SolicitedBody

        asked = await session.commands.requirements.solicit(**body)
        ids = [one.id for one in asked.requirements]
        return SolicitedBody(request_id=asked.request_id, requirement_ids=ids)

    asked = act(who, post("requirements", "solicit", body=body), work)
    print_change(asked, f"asked by request {asked.request_id}", json=who.json)


@app.command()
@by_member
def show(who: ActorOptions, requirement: RequirementArgument) -> None:
    """Show a requirement with what happened to it. Takes `documents:read`."""
    route = get("requirements", requirement)
    _print(act(who, route, lambda session: _read(session, requirement)), who.json)


@app.command()
@by_member
def waive(who: ActorOptions, requirement: RequirementArgument, reason: ReasonOption) -> None:
    """Do without a document; what waits for it goes on. Takes `requirements:waive`."""

    async def work(session: ActorSession) -> None:
        await session.commands.requirements.waive(requirement, reason)

    route = post("requirements", requirement, "waive", body={"reason": reason})
    _command(who, requirement, route, work, "waived")


@app.command()
@by_member
def reset(who: ActorOptions, requirement: RequirementArgument, reason: ReasonOption) -> None:
    """Begin a requirement again, with all rounds of asking. Takes `requirements:manage`."""

    async def work(session: ActorSession) -> None:
        await session.commands.requirements.reset(requirement, reason)

    route = post("requirements", requirement, "reset", body={"reason": reason})
    _command(who, requirement, route, work, "reset")


@app.command()
@by_member
def codes(who: ActorOptions) -> None:
    """List the codes with which versions are rejected."""
    from assent.cli.output import print_body, print_table, safe, table

    async def work(session: ActorSession) -> "RejectionCodes":
        from assent.bodies.documents import RejectionCodeBody, RejectionCodes

        codes = await session.commands.requirements.list_codes()
        return RejectionCodes(items=[RejectionCodeBody.of(one) for one in codes])

    found = act(who, get("rejection-codes"), work)
    if who.json:
        print_body(found)
        return
    rows: list[list[Any]] = [
        [
            safe(one.code),
            safe(one.category),
            "yes" if one.retryable else "no",
            safe(f"{one.client_message} {one.next_action}"),
        ]
        for one in found["items"]
    ]
    print_table(table(("code", "category", "retry", "message"), rows))


@app.command("save-code")
@by_member
def save_code(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    code: Annotated[str, typer.Argument(metavar="CODE", help="Such as UNREADABLE.")],
    category: Annotated[str, typer.Option("--category", help="Such as quality.")],
    client_message: Annotated[str, typer.Option("--client-message", help="What was wrong, for the client.")],
    ops_message: Annotated[str, typer.Option("--ops-message", help="What was wrong, for colleagues.")],
    next_action: Annotated[str, typer.Option("--next-action", help="What the client can do about it.")],
    retryable: Annotated[
        bool, typer.Option("--retryable/--final", help="Whether the client is asked again.")
    ] = True,
) -> None:
    """Save a rejection code of the org, without translations, in place of the one of its name.

    One of all orgs is said in the org's own words from then on. Takes `requirements:manage`.
    """
    from assent.cli.output import print_change

    words: dict[str, Any] = {
        "category": category,
        "client_message": client_message,
        "ops_message": ops_message,
        "next_action": next_action,
        "retryable": retryable,
    }

    async def work(session: ActorSession) -> "RejectionCodeBody":
        from assent.bodies.documents import RejectionCodeBody
        from assent.model.document import RejectionCode

        requirements = session.commands.requirements
        return RejectionCodeBody.of(await requirements.save_code(RejectionCode(code, **words)))

    saved = act(who, put("rejection-codes", code, body=words), work)
    print_change(saved, f"saved {saved.code}", json=who.json)


async def _read(session: ActorSession, requirement_id: UUID) -> "RequirementDetailsBody":
    from assent.bodies.documents import RequirementDetailsBody

    return RequirementDetailsBody.of_details(await session.commands.requirements.get(requirement_id))


def _command(
    who: ActorOptions,
    requirement_id: UUID,
    route: ServerCall,
    work: Callable[[ActorSession], Awaitable[None]],
    done: str,
) -> None:
    """Run a command on a requirement, and print it then if the member may read it."""
    from assent.cli.output import print_change

    found = act_then_read(who, route, work, lambda session: _read(session, requirement_id))
    print_change(found, f"{done} {requirement_id}", json=who.json)


def _print(found: Any, json: bool) -> None:
    from assent.cli.output import (
        console,
        moment,
        print_body,
        print_table,
        safe,
        status_text,
        table,
    )

    if json:
        print_body(found)
        return
    one = found.requirement
    console().print(status_text(one.status), safe(f"{one.doc_type} of {one.subject}"), str(one.id))
    console().print(f"  asked {one.attempt_count} of {one.max_attempts} times")
    if one.message is not None:
        console().print(f"  last rejected as {one.rejection_code}: {safe(one.message)}")
    rows: list[list[Any]] = [
        [f"  {moment(event.at)}", event.type, safe(event.actor_id), safe(event.notes or "")]
        for event in found.events
    ]
    print_table(table(("  at", "what", "who", "why"), rows))


def _table(requirements: "Sequence[Any]") -> "Table":
    from assent.cli.output import safe, status_text, table

    rows: list[list[Any]] = [
        [
            safe(one.doc_type),
            safe(one.subject),
            status_text(one.status),
            f"{one.attempt_count}/{one.max_attempts}",
            safe(one.rejection_code or ""),
            str(one.id),
        ]
        for one in requirements
    ]
    return table(("type", "subject", "status", "asked", "last code", "id"), rows)
