"""Sources of signed events, by the prefix of their keys. `/api/event-sources`

Only the owner of the tables may read secrets, so these handlers work in the owner's transactions, for the caller's org.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.requests import SourceBody, SourceWithSecret
from assent.http.context import Transaction
from assent.http.fields import NamePath, RequestModel, ShortText
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.problems import shown_once
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
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

router = Router(prefix="/api/event-sources", tags=["event sources"])

Secret = Annotated[str, StringConstraints(pattern=SECRET_PATTERN)]


class NewSource(RequestModel):
    name: ShortText = Field(examples=["bank"])
    key_prefix: ShortText = Field(
        description="Events whose keys begin with it must be signed.", examples=["payment:"]
    )
    secret: Secret | None = Field(
        None,
        description="The secret of the signatures; a new one without it.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
    )


class NewSecret(RequestModel):
    secret: Secret | None = Field(
        None,
        description="The secret of the signatures from now on; a new one without it.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
    )


@router.query("", scope="sources:read", owner_for=MANAGE_SOURCES, summary="List sources of events, by name")
async def list_sources(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[SourceBody]]:
    """For holders of `events:sources`."""
    after = position_of(cursor, text_in)
    sources = await list_event_sources(tx.connection, tx.org_id, after, limit + 1)
    return page_of(sources, limit, SourceBody.of, lambda source: source.name)


@router.command(
    "",
    scope="sources:write",
    rate="entities",
    owner_for=MANAGE_SOURCES,
    status=201,
    errors=(409,),
    summary="Create a source of signed events",
)
async def create_source(tx: Transaction, body: NewSource) -> Reply[SourceWithSecret]:
    """For holders of `events:sources`. From now on events under its keys are accepted only with a signature."""
    secret, source = await create_event_source(
        tx.connection, tx.org_id, body.name, body.key_prefix, body.secret, tx.actor.id, tx.now()
    )
    return _show_secret(tx, secret, source, 201)


@router.command(
    "/{name}/rotate",
    scope="sources:write",
    rate="entities",
    owner_for=MANAGE_SOURCES,
    errors=(404,),
    summary="Rotate the secret of a source",
)
async def rotate_source(tx: Transaction, name: NamePath, body: NewSecret) -> Reply[SourceWithSecret]:
    """For holders of `events:sources`. The previous secret is valid beside the new one until it is retired."""
    secret, source = await rotate_event_secret(tx.connection, tx.org_id, name, body.secret, tx.now())
    return _show_secret(tx, secret, source)


@router.command(
    "/{name}/retire",
    scope="sources:write",
    rate="entities",
    owner_for=MANAGE_SOURCES,
    errors=(404,),
    summary="Retire the previous secret of a source",
)
async def retire_source_secret(tx: Transaction, name: NamePath) -> SourceBody:
    """For holders of `events:sources`, when the sender uses the new secret."""
    return SourceBody.of(await retire_former_secret(tx.connection, tx.org_id, name))


@router.command(
    "/{name}",
    method="DELETE",
    scope="sources:write",
    rate="entities",
    owner_for=MANAGE_SOURCES,
    errors=(404,),
    summary="Delete a source of signed events",
)
async def delete_source(tx: Transaction, name: NamePath) -> SourceBody:
    """For holders of `events:sources`. Events under its keys are accepted without a signature again."""
    return SourceBody.of(await delete_event_source(tx.connection, tx.org_id, name))


def _show_secret(
    tx: Transaction, secret: str, source: EventSource, status: int = 200
) -> Reply[SourceWithSecret]:
    reply = reply_with(SourceWithSecret(**SourceBody.of(source).model_dump(), secret=secret), status)
    message = f"the secret of `{source.name}` was set under this `Idempotency-Key`"
    return shown_once(reply, tx.request.url.path, message)
