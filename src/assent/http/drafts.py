"""Drafts: flows and patches that are being written. One for each name, and it never runs. `/api/drafts`"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Response

from assent.definitions import (
    change_draft,
    create_draft,
    discard_draft,
    problems_of_draft,
    publish_draft,
    read_draft,
    tag_of_draft,
)
from assent.http import showing
from assent.http.declared import reporting_problems
from assent.http.definition_shapes import (
    DefinitionBody,
    DraftBody,
    DraftSource,
    PlacedProblem,
    PublicationBody,
)
from assent.http.desk import RequestContext, Transaction
from assent.http.etags import IfMatch, etag, tag_meant
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import ABOUT_DEFINITIONS
from assent.http.signing import Reading, Writing
from assent.runtime.rights import EDIT, PUBLISH, require_capability
from assent.store.database import Connection

router = Router(takes_much=True, prefix="/api/drafts", tags=["drafts"])

Look = Annotated[RequestContext, Depends(Reading("definitions:read"))]
Write = Annotated[RequestContext, Depends(Writing("definitions:write", "entities"))]

_ETAG: dict[str, Any] = {"headers": {"ETag": {"schema": {"type": "string"}, "description": "Of its text."}}}


@router.post(
    "",
    status_code=201,
    response_model=DraftBody,
    summary="Begin a draft",
    responses={201: _ETAG, **documented(400, 409, 413, 422)},
)
async def create_draft_of_org(desk: Write, body: DraftSource) -> Response:
    """For holders of `definitions:edit`. It may be wrong; it must only say what it is."""

    async def work(session: Transaction) -> Reply:
        require_capability(desk.caller.actor, EDIT)
        with reporting_problems("source"):
            kept = await create_draft(session.connection, desk.org_id, body.source, *_by(desk))
        return await _draft(desk, session.connection, kept.id, 201, location=f"/api/drafts/{kept.id}")

    return await desk.write(work)


@router.get(
    "/{definition_id}",
    response_model=DraftBody,
    summary="Read a draft",
    responses={200: _ETAG, **documented(404, 422)},
)
async def show_draft(desk: Look, definition_id: UUID) -> Response:
    """With everything that keeps it from being published, for holders of `definitions:read`."""

    async def work(connection: Connection) -> Reply:
        return await _draft(desk, connection, definition_id)

    return (await desk.read(work)).response()


@router.put(
    "/{definition_id}",
    response_model=DraftBody,
    summary="Write a draft anew",
    responses={200: _ETAG, **documented(400, 404, 412, 413, 422, 428)},
)
async def change_draft_of_org(
    desk: Write, definition_id: UUID, body: DraftSource, if_match: IfMatch = None
) -> Response:
    """For holders of `definitions:edit`. A draft keeps its name. Says which text it is written in place of."""
    tag = tag_meant(if_match, required=True)

    async def work(session: Transaction) -> Reply:
        require_capability(desk.caller.actor, EDIT)
        with reporting_problems("source"):
            put = (session.connection, desk.org_id, definition_id, body.source)
            await change_draft(*put, *_by(desk), tag=tag)
        return await _draft(desk, session.connection, definition_id)

    return await desk.write(work)


@router.delete(
    "/{definition_id}",
    response_model=DefinitionBody,
    summary="Throw a draft away",
    responses=documented(404, 413, 422),
)
async def discard_draft_of_org(desk: Write, definition_id: UUID) -> Response:
    """For holders of `definitions:edit`. The answer is what it was."""

    async def work(session: Transaction) -> Reply:
        require_capability(desk.caller.actor, EDIT)
        row = await read_draft(session.connection, desk.org_id, definition_id)
        await discard_draft(session.connection, desk.org_id, definition_id)
        return Reply.of(await showing.show_definition(desk, row), about=ABOUT_DEFINITIONS)

    return await desk.write(work)


@router.post(
    "/{definition_id}/publish",
    response_model=PublicationBody,
    summary="Publish a draft",
    responses=documented(404, 412, 413, 422, 428),
)
async def publish_draft_of_org(desk: Write, definition_id: UUID, if_match: IfMatch = None) -> Response:
    """For holders of `definitions:publish`, and of what its steps use. The draft is gone then, and it starts.

    Says which text was reviewed: a draft that was changed since then is not published. Where the org publishes with
    four eyes, by a person who did not write it.
    """
    tag = tag_meant(if_match, required=True)

    async def work(session: Transaction) -> Reply:
        require_capability(desk.caller.actor, PUBLISH)
        with reporting_problems():
            done = await publish_draft(
                session.connection,
                desk.org_id,
                definition_id,
                *_by(desk),
                capabilities=desk.house.app.capabilities,
                tag=tag,
            )
        return Reply.of(PublicationBody.of(done))

    return await desk.write(work)


async def _draft(
    desk: RequestContext, connection: Connection, definition_id: UUID, status: int = 200, **headers: str
) -> Reply:
    row = await read_draft(connection, desk.org_id, definition_id)
    now = desk.house.database.clock.now()
    problems = await problems_of_draft(connection, desk.org_id, definition_id, now)
    found = PlacedProblem.first_of(problems)
    return await showing.show_draft(desk, row, found, status, etag=etag(tag_of_draft(row)), **headers)


def _by(desk: RequestContext) -> tuple[Any, Any]:
    return desk.caller.actor, desk.house.database.clock.now()
