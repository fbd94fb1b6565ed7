"""Drafts: flows and patches that are being written, one for each name; they never run. `/api/drafts`"""

from typing import Any, Final
from uuid import UUID

from pydantic import Field

from assent.bodies.body import Data
from assent.bodies.definitions import DefinitionBody, DraftBody, PublicationBody
from assent.definitions import Draft
from assent.http.context import Transaction
from assent.http.fields import RequestModel, RequiredTag, etag
from assent.http.problems import reporting_problems
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router

router = Router(takes_documents=True, prefix="/api/drafts", tags=["drafts"])

_FLOW: Final = {
    "flow": "leave.request",
    "version": 1,
    "start": "ask",
    "steps": [
        {"id": "ask", "type": "approval", "assignee": {"role": "manager"}},
        {"id": "done", "type": "terminal"},
    ],
    "transitions": [
        {"from": "ask", "event": "approved", "to": "done"},
        {"from": "ask", "event": "rejected", "to": "done"},
    ],
}
_ABOUT = (("definitions", ""),)
_ETAG: dict[str, Any] = {"headers": {"ETag": {"schema": {"type": "string"}, "description": "Of its source."}}}


class DraftSource(RequestModel):
    """The source of a draft, valid or not."""

    source: Data = Field(description="A flow or a patch, in the format of files, as JSON.", examples=[_FLOW])


async def show_source(tx: Transaction, definition_id: UUID) -> Reply[DraftBody]:
    """Return the reply with a draft and its problems, for callers who may read definitions."""
    return _show(await tx.reads.drafts.get(definition_id))


def _show(draft: Draft, status: int = 200) -> Reply[DraftBody]:
    location = {"location": f"/api/drafts/{draft.content.version.id}"} if status == 201 else {}
    headers = {"etag": etag(draft.tag), **location}
    return reply_with(DraftBody.of_draft(draft), status, about=_ABOUT, headers=headers)


@router.command(
    "",
    scope="definitions:write",
    rate="entities",
    status=201,
    errors=(409,),
    responses={201: _ETAG},
    summary="Create a draft",
)
async def create_draft_of_org(tx: Transaction, body: DraftSource) -> Reply[DraftBody]:
    """For holders of `definitions:edit`. It may be invalid, but must name its kind."""
    with reporting_problems("source"):
        return _show(await tx.runtime.drafts.create(body.source), 201)


@router.query(
    "/{definition_id}",
    scope="definitions:read",
    errors=(404,),
    responses={200: _ETAG},
    summary="Read a draft",
)
async def show_draft(tx: Transaction, definition_id: UUID) -> Reply[DraftBody]:
    """With all problems that prevent its publication, for holders of `definitions:read`."""
    return await show_source(tx, definition_id)


@router.command(
    "/{definition_id}",
    method="PUT",
    scope="definitions:write",
    rate="entities",
    errors=(404, 412, 428),
    responses={200: _ETAG},
    summary="Replace a draft",
)
async def change_draft_of_org(
    tx: Transaction, definition_id: UUID, body: DraftSource, tag: RequiredTag
) -> Reply[DraftBody]:
    """For holders of `definitions:edit`. A draft keeps its name. `If-Match` names the source that it replaces."""
    with reporting_problems("source"):
        return _show(await tx.runtime.drafts.change(definition_id, body.source, tag=tag))


@router.command(
    "/{definition_id}",
    method="DELETE",
    scope="definitions:write",
    rate="entities",
    errors=(404,),
    summary="Discard a draft",
)
async def discard_draft_of_org(tx: Transaction, definition_id: UUID) -> Reply[DefinitionBody]:
    """For holders of `definitions:edit`. The reply is the draft that was discarded."""
    discarded = await tx.runtime.drafts.discard(definition_id)
    return reply_with(DefinitionBody.of_content(discarded), about=_ABOUT)


@router.command(
    "/{definition_id}/publish",
    scope="definitions:write",
    rate="entities",
    errors=(404, 412, 428),
    summary="Publish a draft",
)
async def publish_draft_of_org(tx: Transaction, definition_id: UUID, tag: RequiredTag) -> PublicationBody:
    """For holders of `definitions:publish`, and of what its steps use. The draft is deleted, and new instances use it.

    `If-Match` names the source that was reviewed: a draft that was changed since then is not published. If the org
    publishes with four eyes, the caller must be a user who did not edit it.
    """
    with reporting_problems():
        return PublicationBody.of_publication(await tx.runtime.drafts.publish(definition_id, tag=tag))
