"""Workflows: start, look, and answer. `/ui/workflows`"""

from dataclasses import replace
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Body as JsonBody
from fastapi import Depends, Query, Response

from assent.http.desk import RequestContext, Transaction
from assent.http.instances import command_to
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.permissions import reader_for
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import UNSEEN, answer, describe_instance, instance_for, show_instance
from assent.http.signing import Reading, Writing
from assent.http.texts import Data, NamePath, NameQuery
from assent.http.workflow_shapes import (
    AdvanceBody,
    Descriptor,
    InstanceBody,
    InstanceSummary,
    TimelineStep,
    timeline_step,
)
from assent.model.cursor import id_in, position_of, time_and_id_in
from assent.runtime.view import InstanceView
from assent.runtime.views import InstanceFilter, list_instances, list_steps
from assent.store.database import Connection
from assent.store.rows import Row

router = Router(takes_much=True, prefix="/ui/workflows", tags=["workflows"])

Look = Annotated[RequestContext, Depends(Reading("workflows:read"))]
Act = Annotated[RequestContext, Depends(Writing("workflows:write", "workflows"))]

StatusWord = Literal["running", "paused", "completed", "failed", "cancelled", "active", "suspended"]
_INPUT: Final = {"order_id": "ord-123", "customer_email": "bob@example.com"}
_STATUSES: Final = {"active": "running", "suspended": "paused"}
"""Other words for two statuses, accepted as filters (D7)."""


@router.post(
    "/{workflow_id}/start",
    status_code=201,
    response_model=InstanceBody,
    summary="Start a workflow",
    responses=documented(400, 404, 409, 410, 413, 422),
)
async def start_workflow(
    desk: Act,
    workflow_id: NamePath,
    data: Annotated[Data, JsonBody(default_factory=dict, examples=[_INPUT])],
) -> Response:
    """The body is what the workflow begins with; the answer is the instance, after all that could happen at once.

    An `Idempotency-Key` stands for this start in the whole org, for good: sent again by a caller who may read the
    instance, it answers with that instance as it is then.
    """
    caller = desk.caller

    async def work(session: Transaction) -> Reply:
        view = await session.runtime.org(
            desk.org_id, caller.actor, partition_id=caller.partition_id
        ).instances.start(workflow_id, data, idempotency_key=desk.repeat_key)
        place = f"/ui/workflows/{view.id}"
        return await answer(
            show_instance(desk, session.connection, view, 201, location=place), location=place
        )

    names = {"data": "", "key": "workflow_id", "flow": "workflow_id", "idempotency_key": "Idempotency-Key"}
    return await desk.write(work, names)


@router.get(
    "",
    response_model=Page[InstanceSummary],
    summary="List instances, newest first",
    responses=documented(422),
)
async def list_workflows(  # noqa: PLR0913, PLR0917
    desk: Look,
    status: Annotated[list[StatusWord] | None, Query(max_length=7)] = None,
    workflow: NameQuery = None,
    subject: NameQuery = None,
    entity_id: UUID | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """Those that the caller may read. `active` and `suspended` mean `running` and `paused`.

    `subject` is who started it.
    """
    wanted = InstanceFilter(
        [_STATUSES.get(word, word) for word in status] if status else None,
        workflow,
        subject,
        entity_id,
        desk.caller.partition_id,
    )
    after = position_of(cursor, id_in)

    async def work(connection: Connection) -> list[Row]:
        seen = replace(wanted, reader=await reader_for(desk, connection))
        return await list_instances(connection, desk.org_id, seen, after, limit + 1)

    return page_of(await desk.read(work), limit, InstanceSummary.of, lambda row: str(row["id"]))


@router.get(
    "/{instance_id}",
    response_model=Descriptor,
    summary="See an instance",
    responses=documented(404, 409, 422),
)
async def show_workflow(desk: Look, instance_id: UUID) -> Any:
    """Where it stands, how it came there, and what the caller could do: forms and events only where they may answer."""

    async def work(connection: Connection) -> Descriptor:
        return await describe_instance(desk, connection, instance_id)

    return await desk.read(work)


@router.get(
    "/{instance_id}/steps",
    response_model=Page[TimelineStep],
    summary="List the steps of an instance, newest first",
    responses=documented(404, 422),
)
async def list_workflow_steps(
    desk: Look, instance_id: UUID, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Any:
    """Each with who brought it about and what came of it; the descriptor has the newest of them only."""
    after = position_of(cursor, time_and_id_in)

    async def work(connection: Connection) -> list[Row]:
        await instance_for(desk, connection, instance_id)
        return await list_steps(connection, desk.org_id, instance_id, after, limit + 1)

    def place(row: Row) -> Any:
        return row["created_at"].isoformat(), str(row["id"])

    return page_of(await desk.read(work), limit, timeline_step, place)


@router.post(
    "/{instance_id}/advance",
    response_model=InstanceBody,
    summary="Answer a step",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def advance_workflow(desk: Act, instance_id: UUID, body: AdvanceBody) -> Response:
    """An event of the step that waits; for an approval it is the decision, with all its rules."""

    async def command(session: Transaction) -> InstanceView:
        return await session.runtime.org(desk.org_id, desk.caller.actor).instances.advance(
            instance_id, body.event, body.input, step=body.step
        )

    return await command_to(desk, instance_id, command, {"data": "input"})
