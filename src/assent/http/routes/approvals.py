"""Approvals: read a request, decide it, reassign it. `/api/approvals`"""

from uuid import UUID

from pydantic import Field

from assent.approvals.requests import ApprovalDetails
from assent.bodies.body import Data
from assent.bodies.instances import ApprovalBody, ApprovalToDecideBody, DecidedBody, InstanceBody
from assent.http.context import Transaction
from assent.http.fields import RequestModel, ShortText, Text
from assent.http.replies import About, Reply, reply_with
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router
from assent.model.mutation import Refused
from assent.runtime.readers import has_right_to_read, has_seat, may_read_instance
from assent.runtime.views import InstanceView

router = Router(prefix="/api/approvals/{request_id}", tags=["approvals"])


class DecideBody(RequestModel):
    """An answer to a request."""

    answer: ShortText = Field(
        description="`approved`, `rejected`, `abstained`, or an outcome that the step defines.",
        examples=["approved"],
    )
    reason: Text | None = Field(None, examples=["Within budget"])
    on_behalf_of: ShortText | None = Field(None, description="The user that a delegate decides for.")
    group: ShortText | None = Field(None, description="The group of the seat, if the user has several seats.")
    data: Data = Field(default={}, description="The fields of the step's form, if it has one.")


class ReassignBody(RequestModel):
    """Another user is asked instead."""

    from_user: ShortText = Field(examples=["bob"])
    to_user: ShortText = Field(examples=["carol"])
    reason: Text | None = Field(None, examples=["On holiday"])


async def read_approval(tx: Transaction, request_id: UUID) -> ApprovalDetails:
    """Return a request that the caller is asked about, or whose instance they may read; else raise `Refused`."""
    return await tx.reads.approvals.get(request_id)


async def show_decided(tx: Transaction, request_id: UUID, view: InstanceView) -> Reply[DecidedBody]:
    """Return the reply with a request after a command, and its instance if the caller may read that too."""
    tx.note_done()
    details = view.request
    has_part = details is not None and has_seat(details.request, tx.actor)
    if details is None or not has_part:
        await tx.begin_reading()
        details = await read_approval(tx, request_id)
    request = ApprovalBody.of_details(details)
    about: tuple[About, ...] = (("approval", str(request_id)),)
    try:
        if not has_right_to_read(tx.core, view, tx.actor) and not has_part:
            await may_read_instance(tx.core, tx.connection, view, tx.actor)
    except Refused:
        return reply_with(DecidedBody(request=request), about=about)
    body = DecidedBody(request=request, instance=InstanceBody.of(view))
    return reply_with(body, about=(*about, ("instance", str(view.id))))


@router.query("", scope="approvals:read", errors=(404,), summary="Read a request")
async def show_approval(tx: Transaction, request_id: UUID) -> ApprovalToDecideBody:
    """With the content of exactly the version that is to be approved, and what the caller may answer now.

    For its approvers, their delegates, and callers who may read its instance.
    """
    details = await tx.reads.approvals.get(request_id, with_answers=True)
    return ApprovalToDecideBody.of_details(details)


@router.command(
    "/decide",
    scope="approvals:write",
    rate="workflows",
    errors=(204, 404, 409),
    names={"event": "answer"},
    grouped=True,
    summary="Decide a request",
)
async def decide_approval(tx: Transaction, request_id: UUID, body: DecideBody) -> Reply[DecidedBody]:
    """For its approvers and their delegates. No user approves their own request."""
    view = await tx.runtime.approvals.decide(
        request_id,
        body.answer,
        reason=body.reason,
        on_behalf_of=body.on_behalf_of,
        group=body.group,
        data=body.data,
    )
    return await reply_if_readable(show_decided(tx, request_id, view))


@router.command(
    "/reassign",
    scope="approvals:write",
    rate="workflows",
    errors=(204, 404, 409),
    grouped=True,
    summary="Reassign a request",
)
async def reassign_approval(tx: Transaction, request_id: UUID, body: ReassignBody) -> Reply[DecidedBody]:
    """The caller's own seat, or another's with `approvals:reassign`. The record keeps both names."""
    view = await tx.runtime.approvals.reassign(
        request_id, from_user=body.from_user, to_user=body.to_user, reason=body.reason
    )
    return await reply_if_readable(show_decided(tx, request_id, view))


@router.command(
    "/claim",
    scope="approvals:write",
    rate="workflows",
    errors=(204, 404, 409),
    grouped=True,
    summary="Claim a request",
)
async def claim_approval(tx: Transaction, request_id: UUID) -> Reply[DecidedBody]:
    """Until it is released, no other approver can decide it."""
    view = await tx.runtime.approvals.claim(request_id)
    return await reply_if_readable(show_decided(tx, request_id, view))


@router.command(
    "/release",
    scope="approvals:write",
    rate="workflows",
    errors=(204, 404, 409),
    grouped=True,
    summary="Release a claimed request",
)
async def release_approval(tx: Transaction, request_id: UUID) -> Reply[DecidedBody]:
    """For the user who claimed it, and for holders of `approvals:reassign`."""
    view = await tx.runtime.approvals.release(request_id)
    return await reply_if_readable(show_decided(tx, request_id, view))
