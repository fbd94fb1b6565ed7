"""Workflows: start, look, and answer. `/ui/workflows`"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from fastapi import Body as JsonBody

from assent.http.desk import Desk, Session
from assent.http.instances import command_to, instance_for
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of, position_of
from assent.http.permissions import hidden_types
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.signing import Reading, Writing
from assent.http.texts import Data, NamePath, NameQuery
from assent.http.workflow_shapes import (
    Advance,
    Descriptor,
    InstanceBody,
    InstanceSummary,
    TimelineStep,
    timeline_step,
)
from assent.runtime.describe import describe
from assent.runtime.listing import InstanceFilter, Row, list_instances, list_steps
from assent.runtime.view import InstanceView
from assent.store.database import Connection

router = APIRouter(prefix="/ui/workflows", tags=["workflows"])

Look = Annotated[Desk, Depends(Reading("workflows:read"))]
Act = Annotated[Desk, Depends(Writing("workflows:write", "workflows"))]

StatusWord = Literal["running", "paused", "completed", "failed", "cancelled", "active", "suspended"]
_INPUT: Final = {"order_id": "ord-123", "customer_email": "bob@example.com"}
_STATUSES: Final = {"active": "running", "suspended": "paused"}
"""Seed 003's words, for whoever filters by them (D7)."""


@router.post(
    "/{workflow_id}/start",
    status_code=201,
    response_model=InstanceBody,
    summary="Start a workflow",
    responses=documented(400, 404, 409, 413, 422),
)
async def start_workflow(
    desk: Act,
    workflow_id: NamePath,
    data: Annotated[Data, JsonBody(default_factory=dict, examples=[_INPUT])],
) -> Response:
    """The body is what the workflow begins with; the answer is the instance, after all that could happen at once."""
    caller = desk.caller

    async def work(session: Session) -> Reply:
        view = await session.runtime.start(
            desk.org_id, workflow_id, caller.actor, data, partition_id=caller.partition_id
        )
        return Reply.of(InstanceBody.of(view), 201, location=f"/ui/workflows/{view.id}")

    return await desk.write(work, {"data": "", "key": "workflow_id"})


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
    """`active` and `suspended` mean `running` and `paused`. `subject` is whoever started it."""
    wanted = InstanceFilter(
        [_STATUSES.get(word, word) for word in status] if status else None,
        workflow,
        subject,
        entity_id,
        desk.caller.partition_id,
        hidden_types(desk),
    )
    after = position_of(cursor, UUID)

    async def work(connection: Connection) -> list[Row]:
        return await list_instances(connection, desk.org_id, wanted, after, limit + 1)

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
        row = await instance_for(desk, connection, instance_id)
        actor, runtime = desk.caller.actor, desk.house.runtime
        found = await describe(runtime, connection, desk.org_id, instance_id, actor)
        assert found is not None, "both reads see one snapshot"
        return Descriptor.of_description(row, found)

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
    after = position_of(cursor, lambda place: (datetime.fromisoformat(place[0]), UUID(place[1])))

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
    responses=documented(400, 404, 409, 413, 422),
)
async def advance_workflow(desk: Act, instance_id: UUID, body: Advance) -> Response:
    """An event of the step that waits; for an approval it is the decision, with all its rules."""

    async def command(session: Session) -> InstanceView:
        return await session.runtime.advance(
            desk.org_id, instance_id, body.event, desk.caller.actor, body.input, step=body.step
        )

    return await command_to(desk, instance_id, command, {"data": "input"})
