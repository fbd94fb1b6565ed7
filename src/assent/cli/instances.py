"""`assent instances`: start, list, show and advance instances, and control them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import (
    CursorOption,
    DataOption,
    GivenId,
    JsonDataOption,
    LimitOption,
    given_data,
    given_length,
    named,
)
from assent.cli.remote import Server, get, given, post
from assent.cli.session import (
    ActorOptions,
    ActorSession,
    InstanceArgument,
    act,
    body_if_readable,
    by_member,
    find_instance_meant,
    find_meant,
)

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.body import Page
    from assent.bodies.instances import InstanceBody, InstanceCountBody, InstancePathBody, StepDetailsBody
    from assent.bodies.operations import EnqueuedBody, StuckBody
    from assent.cli.instance_work import InstancePageBody
    from assent.runtime import InstanceView


app = typer.Typer(no_args_is_help=True, help="Instances: start, list, show, advance and control them.")

KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="An idempotency key: the same key returns the same instance."),
]


@app.command()
@by_member
def start(
    who: ActorOptions,
    flow: Annotated[str, typer.Argument(help="The flow, by the name that it was published under.")],
    data: DataOption = None,
    json_data: JsonDataOption = None,
    key: KeyOption = None,
) -> None:
    """Start a flow, and show where it stands."""
    from assent.cli.instance_page import print_done

    input = given_data(data, json_data)
    route = post("flows", flow, "start", body=input, key=key)
    done = act(who, route, lambda session: _start(session, flow, input, key))
    print_done(f"started {flow}", done, json=who.json)


async def _start(
    session: ActorSession, flow: str, data: dict[str, Any], key: str | None
) -> "InstanceBody | None":
    view = await session.commands.instances.start(flow, data, idempotency_key=key)
    return await body_if_readable(session, view)


class StatusFilter(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


StatusOption = Annotated[
    list[StatusFilter] | None, typer.Option("--status", help="Only these; may be given several times.")
]
WorkflowOption = Annotated[str | None, typer.Option("--workflow", help="Only of this workflow.")]
TypeOption = Annotated[str | None, typer.Option("--entity-type", help="Only about this type of entity.")]


@app.command("list")
@by_member
def list_instances(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    status: StatusOption = None,
    workflow: WorkflowOption = None,
    entity_type: TypeOption = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List instances, newest first, and where each stands."""
    from assent.cli.output import print_items

    statuses = [*status] if status else None
    by = {"workflow": workflow, "entity_type": entity_type, "cursor": cursor, "limit": limit}

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.instances import InstanceSummary

        page = await session.commands.instances.list(statuses=statuses, **by)  # type: ignore[arg-type]
        return text_of_page(page, InstanceSummary.of)

    page = act(who, get("instances", status=statuses, **by), work)
    print_items(page, json=who.json, show=_table, none="There is no such instance.")


@app.command()
@by_member
def count(
    who: ActorOptions,
    status: StatusOption = None,
    workflow: WorkflowOption = None,
    entity_type: TypeOption = None,
) -> None:
    """Count the instances of a list; exact up to 10,000, then with a +."""
    from assent.cli.output import console, print_body

    statuses = [*status] if status else None

    async def work(session: ActorSession) -> "InstanceCountBody":
        from assent.bodies.instances import InstanceCountBody

        found = await session.commands.instances.count(
            statuses=statuses, workflow=workflow, entity_type=entity_type
        )
        return InstanceCountBody.of(found)

    route = get("instances", "count", status=statuses, workflow=workflow, entity_type=entity_type)
    found = act(who, route, work)
    if who.json:
        print_body(found)
    else:
        console().print(f"{found.count:,}{'+' if found.more else ''}")


def _table(listed: Sequence[Any]) -> "Table":
    from assent.cli.output import length, status_text, table

    now = datetime.now(UTC)
    rows = (
        [
            one.id,
            one.workflow_id,
            str(one.definition_version),
            status_text(one.status),
            ", ".join(one.stands_at),
            one.subject_id,
            length(now - one.started_at),
            length(now - one.updated_at),
            (one.incident or {}).get("code"),
        ]
        for one in listed
    )
    headings = ("instance", "workflow", "version", "status", "stands at", "started by", "age", "still for")
    return table((*headings, "incident"), rows, right=("version", "age", "still for"))


@app.command()
@by_member
def show(who: ActorOptions, instance: InstanceArgument) -> None:
    """Show where an instance stands, who it waits for, what it asked, and how it came there.

    An entity's id stands for its newest instance.
    """
    from assent.cli.instance_page import ask_page, print_page
    from assent.cli.output import print_body

    async def work(session: ActorSession) -> "InstancePageBody":
        from assent.cli.instance_work import read_page

        return await read_page(session, instance)

    page = act(who, lambda server: ask_page(server, instance), work)
    if who.json:
        print_body(page)
    else:
        print_page(page)


@app.command()
@by_member
def steps(
    who: ActorOptions, instance: InstanceArgument, limit: LimitOption = 50, cursor: CursorOption = None
) -> None:
    """List all steps of an instance, newest first; `show` has the newest of them."""
    from assent.cli.instance_page import timeline
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.instances import TimelineStep

        async with session.reading() as connection:
            instance_id = await find_instance_meant(session, connection, instance)
        page = await session.commands.instances.history(instance_id, cursor=cursor, limit=limit)
        return text_of_page(page, TimelineStep.of)

    def ask(server: Server) -> Any:
        found = server.instance(instance)
        return server.ask(get("instances", found, "steps", cursor=cursor, limit=limit))

    page = act(who, ask, work)
    print_items(page, json=who.json, show=timeline, none="There is no further step.")


@app.command()
@by_member
def path(who: ActorOptions, instance: InstanceArgument) -> None:
    """Show the way of an instance on its graph: each step, how often it was there, and what leads on from it."""
    from assent.cli.output import print_body, print_table, table

    async def work(session: ActorSession) -> "InstancePathBody":
        from assent.bodies.instances import InstancePathBody

        async with session.reading() as connection:
            instance_id = await find_instance_meant(session, connection, instance)
        return InstancePathBody.of(await session.commands.instances.path(instance_id))

    def show(found: Any) -> "Table":
        here = {token.node_id: token.state for token in found.tokens}
        ways = {node.id: [edge for edge in found.edges if edge.source == node.id] for node in found.nodes}
        names = {node.id: node.label or node.name for node in found.nodes}
        rows = (
            [
                *(names[node.id], node.kind, node.slot or "", str(node.visits), here.get(node.id, "")),
                "\n".join(f"{edge.label} → {names[edge.target]} ({edge.taken})" for edge in ways[node.id]),
            ]
            for node in found.nodes
        )
        return table(["step", "kind", "slot", "visits", "now", "ways on"], rows)

    def ask(server: Server) -> Any:
        return server.ask(get("instances", server.instance(instance), "path"))

    found = act(who, ask, work)
    if who.json:
        print_body(found)
    else:
        print_table(show(found))


@app.command()
@by_member
def step(
    who: ActorOptions,
    instance: InstanceArgument,
    step_id: Annotated[UUID, typer.Argument(help="The id of the step.")],
) -> None:
    """Show a step: how its way was chosen and what it sent. What it was given and gave takes `workflows:retry`."""
    from assent.cli.output import print_body, print_table, table

    async def work(session: ActorSession) -> "StepDetailsBody":
        from assent.bodies.instances import StepDetailsBody

        async with session.reading() as connection:
            instance_id = await find_instance_meant(session, connection, instance)
        return StepDetailsBody.of_step(await session.commands.instances.step(instance_id, step_id))

    def ask(server: Server) -> Any:
        return server.ask(get("instances", server.instance(instance), "steps", step_id))

    found = act(who, ask, work)
    if who.json:
        print_body(found)
        return
    ways = [
        [str(one.get("edge", "")), str(one.get("expression") or one.get("guard")), str(one.get("result"))]
        for one in map(dict, found.evaluations)
    ]
    typer.echo(f"{found.step} ({found.kind}): {found.outcome or found.status}")
    if ways:
        print_table(table(["edge", "condition", "result"], ways))
    for effect in found.effects:
        typer.echo(f"{effect.type} to {effect.destination}: {effect.status}")


StillOption = Annotated[
    str, typer.Option("--still-for", metavar="LENGTH", help="How long it must have been still.")
]


@app.command()
@by_member
def stuck(who: ActorOptions, still_for: StillOption = "15m", limit: LimitOption = 50) -> None:
    """List running instances that nothing will ever continue. Takes the capability `workflows:repair`."""
    from assent.cli.output import moment, print_items, table

    still = given_length(still_for, "--still-for")

    async def work(session: ActorSession) -> "Page[StuckBody]":
        from assent.bodies.body import Page
        from assent.bodies.operations import StuckBody

        found = await session.commands.operations.stuck(still, limit=limit)
        return Page(items=[StuckBody.of(one) for one in found])

    def show(found: Sequence[Any]) -> "Table":
        rows = (
            [one.instance_id, one.workflow_id, ", ".join(one.current_nodes), moment(one.still_since)]
            for one in found
        )
        return table(("instance", "workflow", "stands at", "still since"), rows)

    route = get("operations", "stuck", still_s=int(still.total_seconds()), limit=limit)
    page = act(who, route, work)
    print_items(page, json=who.json, show=show, none="No instance is stuck.")


@app.command()
@by_member
def reenqueue(who: ActorOptions, instance: InstanceArgument) -> None:
    """Have a worker look at an instance again: what is ready in it goes on. Takes `workflows:repair`."""
    from assent.cli.output import print_change

    async def work(session: ActorSession) -> "EnqueuedBody":
        from assent.bodies.operations import EnqueuedBody
        from assent.runtime.rights import may_operate

        async with session.reading() as connection:
            instance_id = await find_instance_meant(session, connection, instance)
        may_operate(session.actor, "repair")
        await session.commands.operations.reenqueue(instance_id)
        return EnqueuedBody(instance_id=instance_id)

    def ask(server: Server) -> Any:
        return server.ask(post("operations", "instances", server.instance(instance), "reenqueue"))

    done = act(who, ask, work)
    print_change(done, f"enqueued {done.instance_id}; a worker looks at it", json=who.json)


StepOption = Annotated[
    str | None, typer.Option("--step", help="Which step is meant, where several wait: its name or its id.")
]


@app.command()
@by_member
def advance(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    instance: InstanceArgument,
    event: Annotated[
        str, typer.Argument(help="The event that completes the step, or the name of a transition.")
    ],
    step: StepOption = None,
    data: DataOption = None,
    json_data: JsonDataOption = None,
) -> None:
    """Complete a step that waits, or move an entity on: `assent instances advance ID submit`.

    An entity's id stands for its instance; when that has ended, a transition begins a new one.
    """
    from assent.cli.instance_page import print_done

    input = given_data(data, json_data)
    body = given(event=event, input=input, step=step)
    done = act(
        who,
        lambda server: _ask_to_advance(server, instance, body),
        lambda session: _advance(session, instance, event, input, step),
    )
    print_done(event, done, json=who.json)


def _ask_to_advance(server: Server, instance: GivenId, body: Mapping[str, Any]) -> Any:
    """Advance an instance, or the instance of an entity; after that has ended, a transition begins a new one."""
    found = server.instance_or_entity(instance)
    if found.entity is None or body.get("step") is not None:
        return server.ask(post("instances", found.instance, "advance", body=body))
    path = ("entities", found.entity["type"], found.entity["id"], "transitions", body["event"])
    moved = server.ask(post(*path, body={"data": body["input"]}))
    return moved and moved.instance


async def _advance(
    session: ActorSession, given: GivenId, event: str, data: dict[str, Any], step: str | None
) -> "InstanceBody | None":
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
    return await body_if_readable(session, view)


ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it is kept in the audit log.")]


@app.command()
@by_member
def cancel(who: ActorOptions, instance: InstanceArgument, reason: ReasonOption = "") -> None:
    """Cancel an instance: no step runs any more, and what was done stays done.

    For the member who started it, and for holders of the capability `workflows:cancel`.
    """

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.cancel(instance_id, reason)

    _control(who, instance, _InstanceCall("cancel", {"reason": reason}), work, "cancelled")


@app.command()
@by_member
def pause(who: ActorOptions, instance: InstanceArgument, reason: ReasonOption = "") -> None:
    """Pause an instance: events, timers and results wait until it is resumed. Takes `workflows:pause`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.pause(instance_id, reason)

    _control(who, instance, _InstanceCall("pause", {"reason": reason}), work, "paused")


@app.command()
@by_member
def resume(who: ActorOptions, instance: InstanceArgument) -> None:
    """Resume a paused instance. Takes the capability `workflows:resume`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.resume(instance_id)

    _control(who, instance, _InstanceCall("resume", None), work, "resumed")


@app.command()
@by_member
def retry(who: ActorOptions, instance: InstanceArgument, step: StepOption = None) -> None:
    """Run the failed steps of an instance again, or one of them. Takes the capability `workflows:retry`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.retry(instance_id, step)

    _control(who, instance, _InstanceCall("retry", given(step=step)), work, "retried")


@app.command()
@by_member
def skip(
    who: ActorOptions,
    instance: InstanceArgument,
    step: Annotated[str, typer.Argument(help="The step to skip: its name or its id.")],
    edge: Annotated[str, typer.Argument(help="The edge to leave it by, as `assent diagram` names it.")],
    reason: ReasonOption = "",
) -> None:
    """Skip a step that failed, and go on by one of its edges. Takes the capability `workflows:repair`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.skip(instance_id, step, edge, reason)

    asked = _InstanceCall("skip", {"step": step, "edge": edge, "reason": reason}, is_repair=True)
    _control(who, instance, asked, work, f"skipped {step}")


@app.command("cancel-token")
@by_member
def cancel_token(
    who: ActorOptions,
    instance: InstanceArgument,
    token: Annotated[str, typer.Argument(help="The token to cancel, as `show --json` names it.")],
    reason: ReasonOption = "",
) -> None:
    """Cancel one branch of an instance; the others go on. Takes the capability `workflows:repair`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.cancel_token(instance_id, token, reason)

    asked = _InstanceCall("cancel-token", {"token": token, "reason": reason}, is_repair=True)
    _control(who, instance, asked, work, f"cancelled token {token}")


@app.command("force-fail")
@by_member
def force_fail(
    who: ActorOptions,
    instance: InstanceArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why it fails.", callback=named)],
) -> None:
    """End an instance as failed, with all that is open in it. Takes the capability `workflows:repair`."""

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.force_fail(instance_id, reason)

    asked = _InstanceCall("force-fail", {"reason": reason}, is_repair=True)
    _control(who, instance, asked, work, "failed")


@app.command()
@by_member
def edit(
    who: ActorOptions,
    instance: InstanceArgument,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    reason: ReasonOption = "",
) -> None:
    """Set variables of a paused instance; each keeps its type. Takes the capability `workflows:repair`.

    The member who does this is an originator then, and approves nothing of the instance after that.
    """
    variables = given_data(data, json_data)
    if not variables:
        raise typer.BadParameter("expected at least one variable", param_hint="--data")

    async def work(session: ActorSession, instance_id: UUID) -> "InstanceView":
        return await session.commands.instances.edit_variables(instance_id, variables, reason)

    asked = _InstanceCall("variables", {"variables": variables, "reason": reason}, is_repair=True)
    _control(who, instance, asked, work, "edited")


@dataclass(frozen=True, slots=True)
class _InstanceCall:
    """What a command asks of an instance over HTTP."""

    command: str
    body: Any
    is_repair: bool = False


def _control(
    who: ActorOptions,
    given: GivenId,
    asked: _InstanceCall,
    work: "Callable[[ActorSession, UUID], Awaitable[InstanceView]]",
    done: str,
) -> None:
    """Run a command on the instance that an id names, and print where it stands then."""
    from assent.cli.instance_page import print_done

    async def find_and_work(session: ActorSession) -> "InstanceBody | None":
        async with session.reading() as connection:
            instance_id = await find_instance_meant(session, connection, given)
        return await body_if_readable(session, await work(session, instance_id))

    def ask(server: Server) -> Any:
        path = ("operations", "instances") if asked.is_repair else ("instances",)
        return server.ask(post(*path, server.instance(given), asked.command, body=asked.body))

    print_done(done, act(who, ask, find_and_work), json=who.json)
