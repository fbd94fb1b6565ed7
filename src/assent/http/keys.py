"""API keys: made and shown once, listed, revoked. `/api/keys`

Somebody makes keys for themselves, and an administrator for service accounts: a key of another person's would be a way
to act in their name.
"""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from assent.approvals.members import read_member
from assent.http.api_keys import ApiKey, create_api_key, page_of_api_keys, revoke_api_key
from assent.http.desk import Desk, Session
from assent.http.moments import Moment
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of, position_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.scopes import covers_all
from assent.http.signing import Reading, ShowingOnce, Writing
from assent.http.texts import Body, NameQuery, ShortText
from assent.model.mutation import Refused, Rejection
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = APIRouter(prefix="/api/keys", tags=["keys"])

MANAGE_KEYS: Final = "keys:manage"
"""The capability to make keys for service accounts, and to see and revoke everybody's."""


Look = Annotated[Desk, Depends(Reading("keys:read"))]
Make = Annotated[Desk, Depends(ShowingOnce(Writing("keys:write", "entities")))]
Write = Annotated[Desk, Depends(Writing("keys:write", "entities"))]


class NewKey(Body):
    name: ShortText = Field(description="What it is for.", examples=["nightly import"])
    user: ShortText | None = Field(None, description="Whose rights it has; one's own without.")
    scopes: Annotated[list[ShortText], Field(max_length=50)] = Field(
        ["*"], description="What it may be used for.", examples=[["entities:read", "workflows:*"]]
    )
    expires_at: Moment | None = Field(None, description="Until it is revoked, without.")


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

    @classmethod
    def of(cls, key: ApiKey) -> "KeyBody":
        return cls(**{name: getattr(key, name) for name in cls.model_fields})


class MadeKey(KeyBody):
    key: str = Field(description="The key itself. It is shown now and never again.")


@router.get(
    "", response_model=Page[KeyBody], summary="List API keys, newest first", responses=documented(422)
)
async def list_keys(
    desk: Look, user: NameQuery = None, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Any:
    """One's own; somebody else's, or everybody's (`user=*`), for holders of `keys:manage`."""
    whose = user or desk.caller.actor.id
    after = position_of(cursor, UUID)

    async def work(connection: Connection) -> list[ApiKey]:
        if whose != desk.caller.actor.id:
            require_capability(desk.caller.actor, MANAGE_KEYS)
        wanted = None if whose == "*" else whose
        return await page_of_api_keys(connection, desk.org_id, wanted, after, limit + 1)

    return page_of(await desk.read(work), limit, KeyBody.of, lambda key: str(key.id))


@router.post(
    "",
    status_code=201,
    response_model=MadeKey,
    summary="Make an API key",
    responses=documented(400, 404, 413, 422),
)
async def create_key(desk: Make, body: NewKey) -> Response:
    """For oneself, or with `keys:manage` for a service account. It may do no more than the key that makes it."""
    whose = body.user or desk.caller.actor.id

    async def work(session: Session) -> Reply:
        await _may_make(desk, session.connection, whose, body.scopes)
        now = desk.house.database.clock.now()
        terms: dict[str, Any] = {"scopes": tuple(body.scopes), "expires_at": body.expires_at}
        async with session.connection.transaction():
            text, made = await create_api_key(session.connection, desk.org_id, whose, body.name, now, **terms)
        return Reply.of(MadeKey(**KeyBody.of(made).model_dump(), key=text), 201)

    return await desk.write(work)


@router.post(
    "/{key_id}/revoke",
    response_model=KeyBody,
    summary="Revoke an API key",
    responses=documented(404, 413, 422),
)
async def revoke_key(desk: Write, key_id: UUID) -> Response:
    """One's own, or anybody's with `keys:manage`. From now on nobody signs in with it."""

    async def work(session: Session) -> Reply:
        actor = desk.caller.actor
        whose = None if actor.can(MANAGE_KEYS) else actor.id
        now = desk.house.database.clock.now()
        gone = await revoke_api_key(session.connection, desk.org_id, key_id, now, user_id=whose)
        return Reply.of(KeyBody.of(gone))

    return await desk.write(work)


async def _may_make(desk: Desk, connection: Connection, whose: str, scopes: list[str]) -> None:
    if not covers_all(desk.caller.scopes, scopes):
        message = "a key cannot make one that may do more than itself"
        raise Refused(Rejection("SCOPE_MISSING", message, ("scopes",)))
    if whose == desk.caller.actor.id:
        return
    require_capability(desk.caller.actor, MANAGE_KEYS)
    if (await read_member(connection, desk.org_id, whose)).kind != "service_account":
        message = f"{whose} makes their own keys: with one of theirs, somebody else would act in their name"
        raise Refused(Rejection("SEPARATION_OF_DUTIES", message, ("user",)))
