"""Forms: see one, take it on, keep what was written so far, hand it on; `advance` answers it. `/api/forms`"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Response
from pydantic import Field

from assent.http import showing
from assent.http.approval_shapes import ReassignBody
from assent.http.desk import RequestContext, Transaction
from assent.http.form_shapes import FormBody
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import UNSEEN, answer
from assent.http.signing import Reading, Writing
from assent.http.texts import Body, Data
from assent.store.database import Connection

router = Router(takes_much=True, prefix="/api/forms/{step_id}", tags=["forms"])

Look = Annotated[RequestContext, Depends(Reading("approvals:read"))]
Act = Annotated[RequestContext, Depends(Writing("approvals:write", "workflows"))]

Command = Callable[[Transaction], Awaitable[object]]


class FormDraftBody(Body):
    data: Data = Field(description="What has been written so far.", examples=[{"rating": 4}])


@router.get("", response_model=FormBody, summary="See a form", responses=documented(404, 422))
async def show_form(desk: Look, step_id: UUID) -> Response:
    """For those who could answer it, also after it has ended; without its draft for those who may read its instance."""

    async def work(connection: Connection) -> Reply:
        return await showing.show_form(desk, connection, step_id)

    return (await desk.read(work)).response()


@router.post(
    "/claim",
    response_model=FormBody,
    summary="Take a form on",
    responses=UNSEEN | documented(404, 409, 413, 422),
)
async def claim_form(desk: Act, step_id: UUID) -> Response:
    """Until it is released, nobody else fills it in."""

    async def command(session: Transaction) -> object:
        return await session.runtime.org(desk.org_id, **_by(desk)).forms.claim(step_id)

    return await _command(desk, step_id, command)


@router.post(
    "/release",
    response_model=FormBody,
    summary="Let others fill a claimed form in",
    responses=UNSEEN | documented(404, 409, 413, 422),
)
async def release_form(desk: Act, step_id: UUID) -> Response:
    """For those who could fill it in and have it or find it free, and for holders of `forms:reassign`."""

    async def command(session: Transaction) -> object:
        return await session.runtime.org(desk.org_id, **_by(desk)).forms.release(step_id)

    return await _command(desk, step_id, command)


@router.put(
    "/draft",
    response_model=FormBody,
    summary="Keep what was written so far",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def keep_form_draft(desk: Act, step_id: UUID, body: FormDraftBody) -> Response:
    """Right or wrong; `draft_problems` says what would be wrong with it if it were sent."""

    async def command(session: Transaction) -> object:
        return await session.runtime.org(desk.org_id, **_by(desk)).forms.save_draft(step_id, data=body.data)

    return await _command(desk, step_id, command)


@router.post(
    "/reassign",
    response_model=FormBody,
    summary="Have somebody else fill a form in",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def reassign_form(desk: Act, step_id: UUID, body: ReassignBody) -> Response:
    """One's own seat, or another's with `approvals:reassign`. Both names stay in the record."""

    async def command(session: Transaction) -> object:
        return await session.runtime.org(desk.org_id, **_by(desk)).forms.reassign(
            step_id, **body.model_dump()
        )

    return await _command(desk, step_id, command)


def _by(desk: RequestContext) -> dict[str, Any]:
    return {"actor": desk.caller.actor, "partition_id": desk.caller.partition_id}


async def _command(desk: RequestContext, step_id: UUID, command: Command) -> Response:
    async def work(session: Transaction) -> Reply:
        await command(session)
        return await answer(showing.show_form(desk, session.connection, step_id))

    return await desk.write(work)
