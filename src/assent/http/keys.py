"""API keys: made and shown once, listed, revoked. `/api/keys`

A member makes keys for themselves, and an administrator for service accounts that hold no more than the administrator:
a key of another person's would be a way to act in their name. A key reaches no further than the session that makes it.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Response
from pydantic import BaseModel, Field

from assent.http.api_keys import (
    ApiKey,
    KeyMaker,
    create_api_key,
    page_of_api_keys,
    revoke_api_key,
)
from assent.http.desk import RequestContext, Transaction
from assent.http.moments import Moment
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented, shown_once
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.signing import Reading, Writing
from assent.http.texts import Body, NameQuery, ShortText
from assent.model.cursor import id_in, position_of
from assent.model.grants import refuse_not_held, refuse_rights_not_held
from assent.model.mutation import Refused, Rejection
from assent.people.members import read_member
from assent.people.roles import read_carried
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = Router(prefix="/api/keys", tags=["keys"])

MANAGE_KEYS: Final = "keys:manage"
"""The capability to make keys for service accounts, and to see and revoke everybody's."""


Look = Annotated[RequestContext, Depends(Reading("keys:read"))]
Write = Annotated[RequestContext, Depends(Writing("keys:write", "entities"))]


class NewKey(Body):
    name: ShortText = Field(description="What it is for.", examples=["nightly import"])
    user: ShortText | None = Field(None, description="Whose rights it has; one's own without.")
    scopes: Annotated[list[ShortText], Field(max_length=50)] | None = Field(
        None,
        description="What it may be used for; without, what the key that makes it may.",
        examples=[["entities:read", "workflows:*"]],
    )
    expires_at: Moment | None = Field(
        None, description="No later than the key or token that makes it; without, when that does."
    )
    partition_id: ShortText | None = Field(
        None, description="The one part of the org that it sees; without, what its maker sees."
    )


class KeyBody(BaseModel):
    """A key, without the key."""

    id: UUID
    user_id: str = Field(examples=["robot"])
    name: str = Field(examples=["nightly import"])
    prefix: str = Field(description="How it begins.", examples=["ak_Zx81aQ_p"])
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    partition_id: str | None = Field(description="The one part of the org that it sees; all without.")
    parent_id: UUID | None = Field(description="The key that made it. It is revoked with that.")
    created_by: str | None = Field(description="The member who made it; an operator without.")

    @classmethod
    def of(cls, key: ApiKey) -> "KeyBody":
        return cls(**{name: getattr(key, name) for name in cls.model_fields})


class MadeKey(KeyBody):
    key: str = Field(description="The key itself. It is shown now and never again.")


@router.get(
    "", response_model=Page[KeyBody], summary="List API keys, newest first", responses=documented(422)
)
async def list_keys(
    desk: Look,
    user: NameQuery = None,
    all: bool = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """One's own; another's, or everybody's (`all=true`), for holders of `keys:manage`."""
    whose = None if all else user or desk.caller.actor.id
    after = position_of(cursor, id_in)

    async def work(connection: Connection) -> list[ApiKey]:
        if whose != desk.caller.actor.id:
            require_capability(desk.caller.actor, MANAGE_KEYS)
        return await page_of_api_keys(connection, desk.org_id, whose, after, limit + 1)

    return page_of(await desk.read(work), limit, KeyBody.of, lambda key: str(key.id))


@router.post(
    "",
    status_code=201,
    response_model=MadeKey,
    summary="Make an API key",
    responses=documented(400, 404, 409, 413, 422),
)
async def create_key(desk: Write, body: NewKey) -> Response:
    """For oneself, or with `keys:manage` for a service account. It may do no more than the session that makes it."""
    whose = body.user or desk.caller.actor.id
    terms: dict[str, Any] = {
        "scopes": None if body.scopes is None else tuple(body.scopes),
        "expires_at": body.expires_at,
        "partition_id": body.partition_id,
    }

    async def work(session: Transaction) -> Reply:
        await _may_make(desk, session.connection, whose)
        now, keys_max = desk.house.database.clock.now(), desk.house.settings.keys_of_member_max
        key = (desk.org_id, whose, body.name, now)
        async with session.connection.transaction():
            text, made = await create_api_key(
                session.connection, *key, **terms, maker=_maker(desk, now), keys_max=keys_max
            )
        reply = Reply.of(MadeKey(**KeyBody.of(made).model_dump(), key=text), 201)
        return shown_once(
            reply, desk.request.url.path, f"the key {made.id} was made under this `Idempotency-Key`"
        )

    return await desk.write(work)


@router.post(
    "/{key_id}/revoke",
    response_model=KeyBody,
    summary="Revoke an API key",
    responses=documented(404, 413, 422),
)
async def revoke_key(desk: Write, key_id: UUID) -> Response:
    """One's own, or anybody's with `keys:manage`. The keys that were made with it are revoked too."""

    async def work(session: Transaction) -> Reply:
        actor = desk.caller.actor
        whose = None if actor.can(MANAGE_KEYS) else actor.id
        now = desk.house.database.clock.now()
        gone = await revoke_api_key(session.connection, desk.org_id, key_id, now, user_id=whose)
        return Reply.of(KeyBody.of(gone))

    return await desk.write(work)


def _maker(desk: RequestContext, now: datetime) -> KeyMaker:
    """The caller's session; whoever signed in by token may have a key outlive it, by as much as the setting says."""
    maker, days = desk.caller.maker, desk.house.settings.key_days_max_by_token
    if maker.key_id is not None or maker.expires_at is None or not days:
        return maker
    return replace(maker, expires_at=max(maker.expires_at, now + timedelta(days=days)))


async def _may_make(desk: RequestContext, connection: Connection, whose: str) -> None:
    actor = desk.caller.actor
    if whose == actor.id:
        return
    require_capability(actor, MANAGE_KEYS)
    member = await read_member(connection, desk.org_id, whose)
    if member.kind != "service_account":
        message = f"{whose} makes their own keys: with one of theirs, somebody else would act in their name"
        raise Refused(Rejection("SEPARATION_OF_DUTIES", message, ("user",)))
    if not member.active:
        raise Refused(Rejection("INACTIVE", f"{whose} is not active and signs in with no key", ("user",)))
    refuse_not_held(actor, await read_carried(connection, desk.org_id, member.roles), "user")
    refuse_rights_not_held(actor, member.roles, desk.house.app.registry.contracts, "user")
