"""`assent instances`: start, list, show and advance instances, and control them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import (
    CursorOption,
    DataOption,
    GivenId,
    JsonDataOption,
    JsonOption,
    LimitOption,
    given_data,
    named,
)
from assent.cli.session import (
    ActorOptions,
    ActorSession,
    AppOption,
    InstanceArgument,
    OrgOption,
    UserOption,
    act,
    find_instance_meant,
    find_meant,
    if_readable,
)
from assent.store.rows import Row

if TYPE_CHECKING:
    from rich.table import Table

    from assent.cli.session import ActorSession
    from assent.runtime import InstanceView
    from assent.runtime.views import InstanceFilter


app = typer.Typer(no_args_is_help=True, help="Instances: start, list, show, advance and control them.")

KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="An idempotency key: the same key returns the same instance."),
]


@app.command()
def start(  # noqa: PLR0913, PLR0917
    flow: Annotated[str, typer.Argument(help="The flow, by the name that it was published under.")],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Start a flow, and show where it stands."""
    from assent.cli.instance_page import print_done

    given = given_data(data, json_data)
    view = act(ActorOptions(app, org, user, json), lambda session: _start(session, flow, given, key))
    print_done(f"started {flow}", view, json=json)


async def _start(
    session: ActorSession, flow: str, data: dict[str, Any], key: str | None
) -> "InstanceView | None":
    view = await session.commands.instances.start(flow, data, idempotency_key=key)
    return await if_readable(session, view)


class StatusFilter(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class InstanceList:
    """A page of instances, with the names of where they stand."""

    rows: list[Row]
    places: Mapping[UUID, list[str]]
    now: datetime


StatusOption = Annotated[
    list[StatusFilter] | None, typer.Option("--status", help="Only these; may be given several times.")
]
WorkflowOption = Annotated[str | None, typer.Option("--workflow", help="Only of this workflow.")]
TypeOption = Annotated[str | None, typer.Option("--entity-type", help="Only about this type of entity.")]


@app.command("list")
def list_instances(  # noqa: PLR0913, PLR0917
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    status: StatusOption = None,
    workflow: WorkflowOption = None,
    entity_type: TypeOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """List instances, newest first, and where each stands."""
    from assent.bodies.instances import InstanceSummary
    from assent.cli.output import print_list
    from assent.runtime.views import InstanceFilter

    wanted = InstanceFilter(
        statuses=[*status] if status else None, workflow=workflow, entity_type=entity_type
    )
    found = act(ActorOptions(app, org, user, json), lambda session: _list(session, wanted, cursor, limit))
    print_list(
        *(found.rows, limit, InstanceSummary.of, lambda row: str(row["id"])),
        json=json,
        show=lambda rows: _table(found, rows),
        none="There is no such instance.",
    )


async def _list(
    session: ActorSession, wanted: "InstanceFilter", cursor: str | None, limit: int
) -> InstanceList:
    from dataclasses import replace

    from assent.model.cursor import id_in, position_of
    from assent.runtime.readers import names_of_nodes, reader_of
    from assent.runtime.views import list_instances as read_instances

    async with session.reading() as connection:
        reader = await reader_of(session.runtime.core, connection, session.org_id, session.actor)
        seen = replace(wanted, reader=reader)
        after = position_of(cursor, id_in)
        rows = await read_instances(connection, session.org_id, seen, after, limit + 1)
        places = await names_of_nodes(connection, session.runtime.core.definitions, rows)
    return InstanceList(rows, places, session.now())


def _table(found: InstanceList, listed: Sequence[Row]) -> "Table":
    from assent.cli.output import length, status_text, table

    rows = (
        [
            str(row["id"]),
            row["workflow_id"],
            status_text(row["status"]),
            ", ".join(found.places[row["id"]]),
            row["subject_id"],
            length(found.now - row["started_at"]),
            length(found.now - row["updated_at"]),
            (row["incident"] or {}).get("code"),
        ]
        for row in listed
    )
    headings = ("instance", "workflow", "status", "stands at", "started by", "age", "still for", "incident")
    return table(headings, rows, right=("age", "still for"))


@app.command()
def show(
    instance: InstanceArgument, app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False
) -> None:
    """Show where an instance stands, who it waits for, what it asked, and how it came there.

    An entity's id stands for its newest instance.
    """
    from assent.cli.instance_page import print_page, read_page
    from assent.cli.output import print_body

    page = act(ActorOptions(app, org, user, json), lambda session: read_page(session, instance))
    if json:
        print_body(page.body)
    else:
        print_page(page)


StepOption = Annotated[
    str | None, typer.Option("--step", help="Which step is meant, where several wait: its name or its id.")
]


@app.command()
def advance(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    event: Annotated[
        str, typer.Argument(help="The event that completes the step, or the name of a transition.")
    ],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    step: StepOption = None,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    json: JsonOption = False,
) -> None:
    """Complete a step that waits, or move an entity on: `assent instances advance ID submit`.

    An entity's id stands for its instance; when that has ended, a transition begins a new one.
    """
    from assent.cli.instance_page import print_done

    given = given_data(data, json_data)
    view = act(
        ActorOptions(app, org, user, json), lambda session: _advance(session, instance, event, given, step)
    )
    print_done(event, view, json=json)


async def _advance(
    session: ActorSession, given: GivenId, event: str, data: dict[str, Any], step: str | None
) -> "InstanceView | None":
    from assent.kernel.entities import read_entity

    commands = session.commands
    async with session.reading() as connection:
        meant = await find_meant(session, connection, given)
        instance_id = meant.instance_id
        if meant.entity_id is not None and step is not None:
            entity = await read_entity(connection, session.org_id, meant.entity_id)
            instance_id = entity.instance_id if entity else None
    if instance_id is None:
        assert meant.entity_id is not None
        view = await commands.entities.transition(meant.entity_id, event, data)
    else:
        view = await commands.instances.advance(instance_id, event, data, step=step)
    return await if_readable(session, view)


ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it is kept in the audit log.")]


@app.command()
def cancel(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Cancel an instance: no step runs any more, and what was done stays done.

    For the member who started it, and for holders of the capability `workflows:cancel`.
    """

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.cancel(instance_id, reason)

    _control(ActorOptions(app, org, user, json), instance, work, "cancelled")


@app.command()
def pause(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Pause an instance: events, timers and results wait until it is resumed. Takes `workflows:pause`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.pause(instance_id, reason)

    _control(ActorOptions(app, org, user, json), instance, work, "paused")


@app.command()
def resume(
    instance: InstanceArgument, app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False
) -> None:
    """Resume a paused instance. Takes the capability `workflows:resume`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.resume(instance_id)

    _control(ActorOptions(app, org, user, json), instance, work, "resumed")


@app.command()
def retry(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    step: StepOption = None,
    json: JsonOption = False,
) -> None:
    """Run the failed steps of an instance again, or one of them. Takes the capability `workflows:retry`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.retry(instance_id, step)

    _control(ActorOptions(app, org, user, json), instance, work, "retried")


@app.command()
def skip(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    step: Annotated[str, typer.Argument(help="The step to skip: its name or its id.")],
    edge: Annotated[str, typer.Argument(help="The edge to leave it by, as `assent diagram` names it.")],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Skip a step that failed, and go on by one of its edges. Takes the capability `workflows:repair`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.skip(instance_id, step, edge, reason)

    _control(ActorOptions(app, org, user, json), instance, work, f"skipped {step}")


@app.command("cancel-token")
def cancel_token(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    token: Annotated[str, typer.Argument(help="The token to cancel, as `show --json` names it.")],
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Cancel one branch of an instance; the others go on. Takes the capability `workflows:repair`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.cancel_token(instance_id, token, reason)

    _control(ActorOptions(app, org, user, json), instance, work, f"cancelled token {token}")


@app.command("force-fail")
def force_fail(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: Annotated[str, typer.Option("--reason", help="Why it fails.", callback=named)],
    json: JsonOption = False,
) -> None:
    """End an instance as failed, with all that is open in it. Takes the capability `workflows:repair`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.force_fail(instance_id, reason)

    _control(ActorOptions(app, org, user, json), instance, work, "failed")


@app.command()
def edit(  # noqa: PLR0913, PLR0917
    instance: InstanceArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    reason: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Set variables of a paused instance; each keeps its type. Takes the capability `workflows:repair`.

    The member who does this is an originator then, and approves nothing of the instance after that.
    """
    variables = given_data(data, json_data)
    if not variables:
        raise typer.BadParameter("expected at least one variable", param_hint="--data")

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.edit_variables(instance_id, variables, reason)

    _control(ActorOptions(app, org, user, json), instance, work, "edited")


def _control(
    who: ActorOptions,
    given: GivenId,
    work: "Callable[[ActorSession, UUID], Awaitable[InstanceView]]",
    done: str,
) -> None:
    """Run a command on the instance that an id names, and print where it stands then."""
    from assent.cli.instance_page import print_done

    async def find_and_work(session: ActorSession) -> "InstanceView | None":
        async with session.reading() as connection:
            instance_id = await find_instance_meant(session, connection, given)
        return await if_readable(session, await work(session, instance_id))

    print_done(done, act(who, find_and_work), json=who.json)
