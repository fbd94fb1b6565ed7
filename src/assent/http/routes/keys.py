"""API keys: create, list, revoke. `/api/keys`

A member makes keys for themselves, and an administrator for service accounts that hold no more than the administrator:
with a key of another user, the maker could act in that user's name. A key reaches no further than the session that
makes it.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.people import KeyBody, MadeKey
from assent.http.context import Transaction
from assent.http.fields import Moment, NameQuery, RequestModel, ShortText
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.problems import shown_once
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.people.api_keys import KeyMaker

router = Router(prefix="/api/keys", tags=["keys"])


class NewKey(RequestModel):
    name: ShortText = Field(description="The purpose of the key.", examples=["nightly import"])
    user: ShortText | None = Field(None, description="The member whose rights it has; the caller without it.")
    scopes: Annotated[list[ShortText], Field(max_length=50)] | None = Field(
        None,
        description="The scopes of the key; without it, those of the key that makes it.",
        examples=[["entities:read", "workflows:*"]],
    )
    expires_at: Moment | None = Field(
        None, description="At the latest when the key or token that makes it expires; without it, then."
    )
    partition_id: ShortText | None = Field(
        None, description="The one partition of the org that it sees; without it, what its maker sees."
    )


@router.query("", scope="keys:read", summary="List API keys, newest first")
async def list_keys(
    tx: Transaction,
    user: NameQuery = None,
    all: bool = False,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[KeyBody]]:
    """The caller's own; another member's, or all (`all=true`), for holders of `keys:manage`."""
    page = await tx.reads.keys.list(user, everyone=all, cursor=cursor, limit=limit)
    return reply_with_page(page, KeyBody.of)


@router.command(
    "", scope="keys:write", rate="entities", status=201, errors=(404, 409), summary="Create an API key"
)
async def create_key(tx: Transaction, body: NewKey) -> Reply[MadeKey]:
    """For the caller, or with `keys:manage` for a service account. It allows no more than the session that makes it."""
    await tx.lock_grants()
    text, made = await tx.runtime.keys.create(
        body.name,
        user_id=body.user,
        scopes=body.scopes,
        expires_at=body.expires_at,
        partition_id=body.partition_id,
        maker=_maker(tx),
        keys_max=tx.services.settings.keys_of_member_max,
    )
    reply = reply_with(MadeKey(**KeyBody.of(made).model_dump(), key=text), 201)
    message = f"the key {made.id} was made under this `Idempotency-Key`"
    return shown_once(reply, tx.request.url.path, message)


@router.command(
    "/{key_id}/revoke", scope="keys:write", rate="entities", errors=(404,), summary="Revoke an API key"
)
async def revoke_key(tx: Transaction, key_id: UUID) -> KeyBody:
    """The caller's own, or any with `keys:manage`. The keys that were made with it are revoked too."""
    await tx.lock_grants()
    return KeyBody.of(await tx.runtime.keys.revoke(key_id))


def _maker(tx: Transaction) -> KeyMaker:
    """Return the caller's session; a key that is made by token may outlive the token by as much as the setting says."""
    maker, days = tx.caller.maker, tx.services.settings.key_days_max_by_token
    if maker.key_id is not None or maker.expires_at is None or not days:
        return maker
    return replace(maker, expires_at=max(maker.expires_at, tx.now() + timedelta(days=days)))
