"""Drafts: flows and patches that are being written, one for each name; they never run. `/api/drafts`"""

from typing import Any, Final
from uuid import UUID

from pydantic import Field

from assent.bodies.body import Data
from assent.bodies.definitions import DefinitionBody, DraftBody, PublicationBody
from assent.bodies.problems import PlacedProblem
from assent.definitions import (
    change_draft,
    create_draft,
    discard_draft,
    problems_of_draft,
    publish_draft,
    read_draft,
    tag_of_draft,
)
from assent.http.context import Transaction
from assent.http.fields import RequestModel, RequiredTag, etag
from assent.http.problems import reporting_problems
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.runtime.rights import EDIT, PUBLISH, may_read_definitions

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


async def show_source(tx: Transaction, definition_id: UUID, status: int = 200) -> Reply[DraftBody]:
    """Return the reply with a draft and its problems, for callers who may read definitions."""
    row = await read_draft(tx.connection, tx.org_id, definition_id)
    problems = await problems_of_draft(tx.connection, tx.org_id, definition_id, tx.now())
    may_read_definitions(tx.actor)
    body = DraftBody(
        **DefinitionBody.of_row(row).model_dump(),
        edited_by=[editor.partition(":")[2] for editor in row["edited_by"]],
        problems=PlacedProblem.first_of(problems),
    )
    location = {"location": f"/api/drafts/{definition_id}"} if status == 201 else {}
    headers = {"etag": etag(tag_of_draft(row)), **location}
    return reply_with(body, status, about=_ABOUT, headers=headers)


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
    tx.require(EDIT)
    with reporting_problems("source"):
        kept = await create_draft(tx.connection, tx.org_id, body.source, tx.actor, tx.now())
    return await show_source(tx, kept.id, 201)


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
    tx.require(EDIT)
    with reporting_problems("source"):
        await change_draft(tx.connection, tx.org_id, definition_id, body.source, tx.actor, tx.now(), tag=tag)
    return await show_source(tx, definition_id)


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
    tx.require(EDIT)
    row = await read_draft(tx.connection, tx.org_id, definition_id)
    await discard_draft(tx.connection, tx.org_id, definition_id)
    may_read_definitions(tx.actor)
    return reply_with(DefinitionBody.of_row(row), about=_ABOUT)


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
    tx.require(PUBLISH)
    with reporting_problems():
        done = await publish_draft(
            tx.connection,
            tx.org_id,
            definition_id,
            tx.actor,
            tx.now(),
            capabilities=tx.services.app.capabilities,
            tag=tag,
        )
    return PublicationBody.of_publication(done)
