"""Forms: read one, claim it, save a draft, reassign it; `advance` submits it. `/api/forms`"""

from uuid import UUID

from pydantic import Field

from assent.approvals.forms import FormView
from assent.bodies.body import Data
from assent.bodies.instances import FormBody
from assent.http.context import Transaction
from assent.http.fields import RequestModel
from assent.http.replies import Reply, reply_with
from assent.http.routes.approvals import ReassignBody
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router

router = Router(takes_documents=True, prefix="/api/forms/{step_id}", tags=["forms"])


class FormDraftBody(RequestModel):
    data: Data = Field(description="The fields so far.", examples=[{"rating": 4}])


async def read_visible_form(tx: Transaction, step_id: UUID) -> FormView:
    """Return a form that the caller could submit, or, without its draft, one whose instance they may read."""
    return await tx.reads.forms.get(step_id)


async def _show(tx: Transaction, step_id: UUID) -> Reply[FormBody]:
    view = await read_visible_form(tx, step_id)
    return reply_with(FormBody.of(view), about=(("form", str(step_id)),))


@router.query("", scope="approvals:read", errors=(404,), summary="Read a form")
async def show_form(tx: Transaction, step_id: UUID) -> Reply[FormBody]:
    """For users who could submit it, also after its end; without its draft for callers who may read its instance."""
    return await _show(tx, step_id)


@router.command(
    "/claim", scope="approvals:write", rate="workflows", errors=(204, 404, 409), summary="Claim a form"
)
async def claim_form(tx: Transaction, step_id: UUID) -> Reply[FormBody]:
    """Until it is released, no other user can fill it in."""
    await tx.runtime.forms.claim(step_id)
    return await reply_if_readable(_show(tx, step_id))


@router.command(
    "/release",
    scope="approvals:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Release a claimed form",
)
async def release_form(tx: Transaction, step_id: UUID) -> Reply[FormBody]:
    """For users who could fill it in and have claimed it or find it free, and for holders of `forms:reassign`."""
    await tx.runtime.forms.release(step_id)
    return await reply_if_readable(_show(tx, step_id))


@router.command(
    "/draft",
    method="PUT",
    scope="approvals:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Save the draft of a form",
)
async def keep_form_draft(tx: Transaction, step_id: UUID, body: FormDraftBody) -> Reply[FormBody]:
    """Valid or not; `draft_problems` has the problems that it would have if it were submitted."""
    await tx.runtime.forms.save_draft(step_id, body.data)
    return await reply_if_readable(_show(tx, step_id))


@router.command(
    "/reassign", scope="approvals:write", rate="workflows", errors=(204, 404, 409), summary="Reassign a form"
)
async def reassign_form(tx: Transaction, step_id: UUID, body: ReassignBody) -> Reply[FormBody]:
    """The caller's own seat, or another's with `approvals:reassign`. The record keeps both names."""
    await tx.runtime.forms.reassign(step_id, **body.model_dump())
    return await reply_if_readable(_show(tx, step_id))
