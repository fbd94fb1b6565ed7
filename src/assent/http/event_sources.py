"""Whose events must be signed, by how their keys begin. `/api/event-sources`

Secrets are the owner's to read, so these routes work in transactions of the owner, for the caller's org only.
"""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Response
from pydantic import BaseModel, Field, StringConstraints

from assent.http.desk import RequestContext, Transaction
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented, shown_once
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.signing import Reading, Writing
from assent.http.texts import Body, NamePath, ShortText
from assent.model.cursor import position_of, text_in
from assent.runtime.event_sources import (
    MANAGE_SOURCES,
    SECRET_PATTERN,
    EventSource,
    create_event_source,
    delete_event_source,
    list_event_sources,
    retire_former_secret,
    rotate_event_secret,
)
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = Router(prefix="/api/event-sources", tags=["event sources"])

Look = Annotated[RequestContext, Depends(Reading("sources:read"))]
Write = Annotated[RequestContext, Depends(Writing("sources:write", "entities"))]
Secret = Annotated[str, StringConstraints(pattern=SECRET_PATTERN)]


class NewSource(Body):
    name: ShortText = Field(examples=["bank"])
    key_prefix: ShortText = Field(
        description="Events whose keys begin so must be signed.", examples=["payment:"]
    )
    secret: Secret | None = Field(
        None,
        description="What the sender signs with; a fresh one without.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
    )


class NewSecret(Body):
    secret: Secret | None = Field(
        None,
        description="What the sender signs with from now on; a fresh one without.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
    )


class SourceBody(BaseModel):
    """A source of events, without its secrets."""

    name: str = Field(examples=["bank"])
    key_prefix: str = Field(examples=["payment:"])
    created_by: str
    created_at: datetime
    rotated_at: datetime | None
    two_secrets: bool = Field(description="Whether the secret before the newest still holds.")

    @classmethod
    def of(cls, source: EventSource) -> "SourceBody":
        return cls(**{name: getattr(source, name) for name in cls.model_fields})


class SourceWithSecret(SourceBody):
    secret: str = Field(description="It is shown now and never again.")


@router.get(
    "", response_model=Page[SourceBody], summary="List sources of events, by name", responses=documented(422)
)
async def list_sources(desk: Look, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT) -> Any:
    """For holders of `events:sources`."""
    after = position_of(cursor, text_in)

    require_capability(desk.caller.actor, MANAGE_SOURCES)

    async def work(connection: Connection) -> list[EventSource]:
        return await list_event_sources(connection, desk.org_id, after, limit + 1)

    return page_of(await desk.read(work, as_owner=True), limit, SourceBody.of, lambda source: source.name)


@router.post(
    "",
    status_code=201,
    response_model=SourceWithSecret,
    summary="Have events signed",
    responses=documented(400, 409, 413, 422),
)
async def create_source(desk: Write, body: NewSource) -> Response:
    """For holders of `events:sources`. From now on events under its keys are taken only with a signature."""

    require_capability(desk.caller.actor, MANAGE_SOURCES)

    async def work(session: Transaction) -> Reply:
        source = (body.name, body.key_prefix, body.secret, desk.caller.actor.id, _now(desk))
        return _shown(desk, *await create_event_source(session.connection, desk.org_id, *source), status=201)

    return await desk.write(work, as_owner=True)


@router.post(
    "/{name}/rotate",
    response_model=SourceWithSecret,
    summary="Change a source's secret",
    responses=documented(400, 404, 413, 422),
)
async def rotate_source(desk: Write, name: NamePath, body: NewSecret) -> Response:
    """For holders of `events:sources`. The secret before holds beside the new one until it is retired."""

    require_capability(desk.caller.actor, MANAGE_SOURCES)

    async def work(session: Transaction) -> Reply:
        secret = (name, body.secret, _now(desk))
        return _shown(desk, *await rotate_event_secret(session.connection, desk.org_id, *secret))

    return await desk.write(work, as_owner=True)


@router.post(
    "/{name}/retire",
    response_model=SourceBody,
    summary="Let only the newest secret hold",
    responses=documented(404, 413, 422),
)
async def retire_source_secret(desk: Write, name: NamePath) -> Response:
    """For holders of `events:sources`, once the sender has changed."""

    require_capability(desk.caller.actor, MANAGE_SOURCES)

    async def work(session: Transaction) -> Reply:
        return Reply.of(SourceBody.of(await retire_former_secret(session.connection, desk.org_id, name)))

    return await desk.write(work, as_owner=True)


@router.delete(
    "/{name}",
    response_model=SourceBody,
    summary="Have events signed no more",
    responses=documented(404, 413, 422),
)
async def delete_source(desk: Write, name: NamePath) -> Response:
    """For holders of `events:sources`. Events under its keys are taken without a signature again."""

    require_capability(desk.caller.actor, MANAGE_SOURCES)

    async def work(session: Transaction) -> Reply:
        return Reply.of(SourceBody.of(await delete_event_source(session.connection, desk.org_id, name)))

    return await desk.write(work, as_owner=True)


def _shown(desk: RequestContext, secret: str, source: EventSource, status: int = 200) -> Reply:
    reply = Reply.of(SourceWithSecret(**SourceBody.of(source).model_dump(), secret=secret), status)
    message = f"the secret of `{source.name}` was set under this `Idempotency-Key`"
    return shown_once(reply, desk.request.url.path, message)


def _now(desk: RequestContext) -> datetime:
    return desk.house.database.clock.now()
