"""The one place where objects become answers, and where it is asked whether the caller may read them.

A route that shows an object calls a function of this module, which raises the refusal of the object's own GET. A
command that is allowed to somebody who may not read its object is answered with nothing. No other module makes these
bodies; `tests/http/test_reading.py` looks after that.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from assent.approvals.forms import FormView
from assent.approvals.requests import ApprovalDetails, read_request
from assent.definitions.views import definition_seen
from assent.http.approval_shapes import ApprovalBody, DecidedBody
from assent.http.definition_shapes import DefinitionBody, DraftBody, PlacedProblem
from assent.http.desk import RequestContext
from assent.http.entity_shapes import EntityBody, TransitionBody
from assent.http.etags import etag
from assent.http.form_shapes import FormBody
from assent.http.permissions import may_read
from assent.http.reply import About, Reply
from assent.http.request_shapes import DeliveryBody, ItemBody, RequestBody, WholeRequest
from assent.http.task_shapes import TaskBody
from assent.http.workflow_shapes import Descriptor, InstanceBody
from assent.kernel.read import read_entity
from assent.model.mutation import Entity, Refused, Rejection
from assent.requests.views import RequestView, came_for, find_request
from assent.runtime.description import describe
from assent.runtime.readers import SeenInstance, could_answer, may_read_instance, was_asked
from assent.runtime.rights import may_read_definitions, require_capability
from assent.runtime.view import InstanceView
from assent.runtime.views import find_instance
from assent.store.database import Connection
from assent.store.joined_database import CallerDatabase
from assent.store.rows import Row
from assent.tasks.views import TaskView, read_task

READ_TASKS: Final = "tasks:read"
UNSEEN: Final[dict[int | str, dict[str, Any]]] = {
    204: {"description": "It was done, and the caller may not read what it was done to."}
}
"""What a command answers to somebody who may not read its object, for its documentation."""


async def answer(showing: Awaitable[Reply], **headers: str) -> Reply:
    """What a command answers: its object as it is now, or nothing where the caller may not read it."""
    try:
        return await showing
    except Refused:
        return Reply(204, "", headers)


# Entities


async def entity_for(
    desk: RequestContext, connection: Connection, entity_type: str, entity_id: UUID
) -> Entity:
    """An entity that the caller may read."""
    desk.contract(entity_type)
    may_read(desk, entity_type)
    return seen_by(desk, entity_type, entity_id, await read_entity(connection, desk.org_id, entity_id))


def seen_by(desk: RequestContext, entity_type: str, entity_id: UUID, entity: Entity | None) -> Entity:
    """The entity, if it is there for the caller: another type's and another partition's is not (D12, D32)."""
    if entity is None or entity.type != entity_type or not desk.caller.sees(entity.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no {entity_type} {entity_id}", ("entity_id",)))
    return entity


async def show_entity(desk: RequestContext, entity: Entity, status: int = 200) -> Reply:
    may_read(desk, entity.type)
    seen_by(desk, entity.type, entity.id, entity)
    return Reply.of(
        EntityBody.of(entity), status, about=_about_entity(entity), **entity_headers(entity, status)
    )


async def show_moved(desk: RequestContext, entity: Entity, view: InstanceView | None = None) -> Reply:
    """An entity after a transition was asked for, and its instance."""
    may_read(desk, entity.type)
    instance = InstanceBody.of(view) if view is not None else None
    body = TransitionBody(entity=EntityBody.of(entity), instance=instance)
    return Reply.of(body, 200, about=_about_entity(entity), **entity_headers(entity))


def entity_headers(entity: Entity, status: int = 200) -> dict[str, str]:
    """The version of an entity, and where it is when it is new: for those who may not read it as well."""
    place = {"location": f"/api/entities/{entity.type}/{entity.id}"} if status == 201 else {}
    return {"etag": etag(entity.version), **place}


def list_entity(entity: Entity) -> EntityBody:
    """An entity in a list, which was asked for its type."""
    return EntityBody.of(entity)


def _about_entity(entity: Entity) -> tuple[About, ...]:
    return (("entity", f"{entity.type}/{entity.id}"),)


# Instances


async def instance_seen(desk: RequestContext, connection: Connection, instance_id: UUID) -> Row:
    """An instance that is there for the caller, whether or not they may read it."""
    row = await find_instance(connection, desk.org_id, instance_id)
    if row is None or not desk.caller.sees(row["partition_id"]):
        raise Refused(Rejection("NOT_FOUND", f"no instance {instance_id}", ("instance_id",)))
    return row


async def instance_for(desk: RequestContext, connection: Connection, instance_id: UUID) -> Row:
    """An instance that the caller may read; all others are not there, or refused (D12, D32)."""
    row = await instance_seen(desk, connection, instance_id)
    await may_read_instance(desk.house.runtime.core, connection, SeenInstance.of(row), desk.caller.actor)
    return row


async def show_instance(
    desk: RequestContext, connection: Connection, view: InstanceView, status: int = 200, **headers: str
) -> Reply:
    """An instance after a command."""
    await may_read_instance(desk.house.runtime.core, connection, view, desk.caller.actor)
    return Reply.of(InstanceBody.of(view), status, about=(("instance", str(view.id)),), **headers)


async def describe_instance(desk: RequestContext, connection: Connection, instance_id: UUID) -> Descriptor:
    """An instance with its variables, its newest steps and what the caller could do."""
    row = await instance_for(desk, connection, instance_id)
    found = await describe(desk.house.runtime.core, connection, desk.org_id, instance_id, desk.caller.actor)
    assert found is not None, "both reads see one snapshot"
    return Descriptor.of_description(row, found)


# Approval requests


async def approval_for(desk: RequestContext, connection: Connection, request_id: UUID) -> ApprovalDetails:
    """A request that the caller is asked about, or whose instance they may read."""
    shown = await read_request(connection, desk.org_id, request_id)
    if shown is None or not desk.caller.sees(shown.request.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no approval request {request_id}", ("request_id",)))
    runtime, user = desk.house.runtime, desk.caller.actor.id
    sits = any(seat.user_id == user and seat.status != "later" for seat in shown.request.seats)
    if not sits and not await was_asked(runtime.core, connection, desk.org_id, request_id, user):
        await instance_for(desk, connection, shown.request.instance_id)
    return shown


async def show_approval(desk: RequestContext, connection: Connection, request_id: UUID) -> ApprovalBody:
    return ApprovalBody.of(await approval_for(desk, connection, request_id))


async def show_decided(
    desk: RequestContext, connection: Connection, request_id: UUID, view: InstanceView
) -> Reply:
    """A request after something was done about it, and its instance where the caller may read that too."""
    shown = await approval_for(desk, connection, request_id)
    about: tuple[About, ...] = (("approval", str(request_id)),)
    try:
        await may_read_instance(desk.house.runtime.core, connection, view, desk.caller.actor)
    except Refused:
        return Reply.of(DecidedBody(request=ApprovalBody.of(shown)), about=about)
    body = DecidedBody(request=ApprovalBody.of(shown), instance=InstanceBody.of(view))
    return Reply.of(body, about=(*about, ("instance", str(view.id))))


# Forms


async def form_for(desk: RequestContext, connection: Connection, step_id: UUID) -> FormView:
    """A form that the caller could answer, or whose instance they may read; its draft is for the former only."""
    joined = CallerDatabase(desk.house.database, connection, desk.org_id)
    runtime, actor = desk.house.runtime.on(joined), desk.caller.actor
    view = await runtime.org(desk.org_id, partition_id=desk.caller.partition_id).forms.get(step_id)
    if await was_asked(runtime.core, connection, desk.org_id, step_id, actor.id):
        return view
    if await could_answer(runtime.core, connection, desk.org_id, view.instance_id, actor, step_id=step_id):
        return view
    await instance_for(desk, connection, view.instance_id)
    return replace(view, draft=None, draft_problems=None)


async def show_form(desk: RequestContext, connection: Connection, step_id: UUID) -> Reply:
    view = await form_for(desk, connection, step_id)
    return Reply.of(FormBody.of(view), about=(("form", str(step_id)),))


# Requests to outside parties


async def request_seen(desk: RequestContext, connection: Connection, request_id: UUID) -> RequestView:
    """A request that is there for the caller, whether or not they may read it (D12, D32)."""
    request = await find_request(connection, desk.org_id, request_id)
    if request is None or not desk.caller.sees(request.partition_id):
        raise Refused(Rejection("NOT_FOUND", f"no request {request_id}", ("request_id",)))
    return request


async def show_request(desk: RequestContext, connection: Connection, request_id: UUID) -> WholeRequest:
    """A request whose instance the caller may read, with what was asked and what came."""
    request = await request_seen(desk, connection, request_id)
    if request.entity_type is None:
        await instance_for(desk, connection, request.instance_id)
    may_read(desk, request.entity_type)
    deliveries, items, asked = await came_for(connection, desk.org_id, request_id)
    return WholeRequest(
        **RequestBody.of(request).model_dump(),
        asked=asked,
        deliveries=[DeliveryBody.of(one) for one in deliveries],
        items=[ItemBody.of(one) for one in items],
    )


def list_request(request: RequestView) -> RequestBody:
    """A request in a list, which was asked by its reader's rights."""
    return RequestBody.of(request)


# Tasks


async def task_seen(desk: RequestContext, connection: Connection, task_id: UUID, capability: str) -> TaskView:
    """A task that is there for a caller with a capability; another org's and another partition's is not there."""
    found = await read_task(connection, desk.org_id, task_id, desk.caller.partition_id)
    if found is None:
        raise Refused(Rejection("NOT_FOUND", f"no task {task_id}", ("task_id",)))
    require_capability(desk.caller.actor, capability)
    return found


async def task_for(desk: RequestContext, connection: Connection, task_id: UUID) -> TaskView:
    """A task that the caller may read: with `tasks:read`, and its instance, where a step submitted it."""
    found = await task_seen(desk, connection, task_id, READ_TASKS)
    if found.instance_id is not None:
        row = await find_instance(connection, desk.org_id, found.instance_id)
        if row is not None:
            await may_read_instance(
                desk.house.runtime.core, connection, SeenInstance.of(row), desk.caller.actor
            )
    return found


async def show_task(desk: RequestContext, connection: Connection, task_id: UUID) -> Reply:
    found = await task_for(desk, connection, task_id)
    return Reply.of(TaskBody.of(found), about=(("task", str(task_id)),))


# Definitions


async def definition_for(desk: RequestContext, connection: Connection, definition_id: UUID) -> Row:
    """A definition of the org or everybody's, with its content, for those who may read definitions."""
    row = await definition_seen(connection, desk.org_id, definition_id)
    may_read_definitions(desk.caller.actor)
    return row


async def show_definition(desk: RequestContext, row: Row) -> DefinitionBody:
    may_read_definitions(desk.caller.actor)
    return DefinitionBody.of_row(row)


async def show_draft(
    desk: RequestContext, row: Row, problems: list[PlacedProblem], status: int = 200, **headers: str
) -> Reply:
    shown = (await show_definition(desk, row)).model_dump()
    editors = [editor.partition(":")[2] for editor in row["edited_by"]]
    body = DraftBody(**shown, edited_by=editors, problems=problems)
    return Reply.of(body, status, about=ABOUT_DEFINITIONS, **headers)


ABOUT_DEFINITIONS: Final[tuple[About, ...]] = (("definitions", ""),)


# Answers that were kept


async def _entity(desk: RequestContext, connection: Connection, named: str) -> None:
    entity_type, _, entity_id = named.partition("/")
    await entity_for(desk, connection, entity_type, UUID(entity_id))


async def _definitions(desk: RequestContext, connection: Connection, named: str) -> None:
    may_read_definitions(desk.caller.actor)


_READABLE: Final[Mapping[str, Callable[[RequestContext, Connection, str], Awaitable[object]]]] = {
    "entity": _entity,
    "instance": lambda desk, connection, named: instance_for(desk, connection, UUID(named)),
    "approval": lambda desk, connection, named: approval_for(desk, connection, UUID(named)),
    "form": lambda desk, connection, named: form_for(desk, connection, UUID(named)),
    "task": lambda desk, connection, named: task_for(desk, connection, UUID(named)),
    "definitions": _definitions,
}


async def show_again(desk: RequestContext, connection: Connection, kept: Reply) -> Reply:
    """A kept answer, or nothing where its caller may not read any more what it shows."""
    try:
        for noun, named in kept.about:
            await _READABLE[noun](desk, connection, named)
    except Refused:
        return Reply(204, "", {name: kept.headers[name] for name in kept.headers if name != "etag"})
    return kept
