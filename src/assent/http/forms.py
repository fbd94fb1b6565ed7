"""Forms: see one, take it on, keep what was written so far, hand it on; `advance` answers it. `/api/forms`"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from assent.approvals.forms import FormView
from assent.http.approval_shapes import Reassign
from assent.http.desk import Desk, Session
from assent.http.permissions import may_read
from assent.http.problems import FieldProblem, documented
from assent.http.reply import Reply
from assent.http.signing import Reading, Writing
from assent.http.texts import Body, Data

router = APIRouter(prefix="/api/forms/{step_id}", tags=["forms"])

Look = Annotated[Desk, Depends(Reading("approvals:read"))]
Act = Annotated[Desk, Depends(Writing("approvals:write", "workflows"))]

Command = Callable[[Session], Awaitable[object]]


class Draft(Body):
    data: Data = Field(description="What has been written so far.", examples=[{"rating": 4}])


class FormBody(BaseModel):
    """A form as whoever fills it in sees it."""

    id: UUID = Field(description="The step that asks.")
    instance_id: UUID
    workflow: str = Field(examples=["survey"])
    node_id: str
    node_name: str = Field(examples=["ask"])
    label: str | None
    entity_type: str | None
    entity_id: UUID | None
    entity_version: int
    title: str | None
    figure: Decimal | None
    form_schema: Data = Field(description="What is asked, as a JSON schema.")
    answers: list[str] = Field(description="The events that it can be answered with.")
    requested_by: str
    asked: list[str] = Field(description="Who is asked now; whoever has the role may fill it in as well.")
    status: str = Field(examples=["open"])
    reason: str | None
    claimed_by: str | None
    claimed_at: datetime | None
    draft: Data | None
    draft_by: str | None
    draft_at: datetime | None
    draft_problems: list[FieldProblem] | None = Field(
        description="What would be wrong with the draft if it were sent."
    )
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, view: FormView) -> "FormBody":
        own = {name: getattr(view, name) for name in cls.model_fields if name != "form_schema"}
        return cls(**own, form_schema=dict(view.schema))


@router.get("", response_model=FormBody, summary="See a form", responses=documented(404, 422))
async def show_form(desk: Look, step_id: UUID) -> Any:
    """Also after it has ended."""
    view = await desk.house.runtime.read_form(desk.org_id, step_id, partition_id=desk.caller.partition_id)
    if desk.caller.actor.id not in view.asked:
        may_read(desk, view.entity_type)
    return FormBody.of(view)


@router.post(
    "/claim", response_model=FormBody, summary="Take a form on", responses=documented(404, 409, 413, 422)
)
async def claim_form(desk: Act, step_id: UUID) -> Response:
    """Until it is released, nobody else fills it in."""

    async def command(session: Session) -> object:
        return await session.runtime.claim_form(desk.org_id, step_id, **_by(desk))

    return await _command(desk, step_id, command)


@router.post(
    "/release",
    response_model=FormBody,
    summary="Let others fill a claimed form in",
    responses=documented(404, 409, 413, 422),
)
async def release_form(desk: Act, step_id: UUID) -> Response:
    """For whoever has claimed it, and for holders of `forms:reassign`."""

    async def command(session: Session) -> object:
        return await session.runtime.release_form(desk.org_id, step_id, **_by(desk))

    return await _command(desk, step_id, command)


@router.put(
    "/draft",
    response_model=FormBody,
    summary="Keep what was written so far",
    responses=documented(400, 404, 409, 413, 422),
)
async def keep_form_draft(desk: Act, step_id: UUID, body: Draft) -> Response:
    """Right or wrong; `draft_problems` says what would be wrong with it if it were sent."""

    async def command(session: Session) -> object:
        return await session.runtime.save_draft(desk.org_id, step_id, data=body.data, **_by(desk))

    return await _command(desk, step_id, command)


@router.post(
    "/reassign",
    response_model=FormBody,
    summary="Have somebody else fill a form in",
    responses=documented(400, 404, 409, 413, 422),
)
async def reassign_form(desk: Act, step_id: UUID, body: Reassign) -> Response:
    """One's own seat, or another's with `approvals:reassign`. Both names stay in the record."""

    async def command(session: Session) -> object:
        return await session.runtime.reassign_form(desk.org_id, step_id, **body.model_dump(), **_by(desk))

    return await _command(desk, step_id, command)


def _by(desk: Desk) -> dict[str, Any]:
    return {"actor": desk.caller.actor, "partition_id": desk.caller.partition_id}


async def _command(desk: Desk, step_id: UUID, command: Command) -> Response:
    async def work(session: Session) -> Reply:
        await command(session)
        return Reply.of(FormBody.of(await session.runtime.read_form(desk.org_id, step_id)))

    return await desk.write(work)
