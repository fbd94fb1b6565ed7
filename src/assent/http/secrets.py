"""Secrets that definitions name: written, listed without their values, deleted. `/api/secrets`

Values are the owner's to keep, so these routes work in transactions of the owner, for the caller's org only. No answer
has a value in it, and neither has the audit log.
"""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Response
from pydantic import BaseModel, Field

from assent.effects.named_secrets import (
    HOSTS_MAX,
    MANAGE_SECRETS,
    VALUE_CHARACTERS_MAX,
    VALUE_CHARACTERS_MIN,
    SecretRecord,
    delete_secret,
    list_secrets,
    put_secret,
)
from assent.http.desk import RequestContext, Transaction
from assent.http.paging import (
    ITEMS_DEFAULT,
    CursorQuery,
    LimitQuery,
    Page,
    page_of,
)
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.signing import Reading, Writing
from assent.http.texts import Body, NamePath, ShortText
from assent.model.cursor import position_of, text_in
from assent.runtime.rights import require_capability
from assent.store.database import Connection

router = Router(prefix="/api/secrets", tags=["secrets"])

Look = Annotated[RequestContext, Depends(Reading("secrets:read"))]
Write = Annotated[RequestContext, Depends(Writing("secrets:write", "entities"))]


class NewSecretValue(Body):
    value: str = Field(
        description="Printable ASCII on one line. It is never shown again.",
        min_length=VALUE_CHARACTERS_MIN,
        max_length=VALUE_CHARACTERS_MAX,
        examples=["kT8vw-2fQ9xL"],
        json_schema_extra={"writeOnly": True},
        repr=False,
    )
    hosts: Annotated[list[ShortText], Field(min_length=1, max_length=HOSTS_MAX)] = Field(
        description="Where it may be sent: a host, with a port where that is not 443; `*.` for those below it.",
        examples=[["erp.example"]],
    )


class SecretBody(BaseModel):
    """A secret, without its value."""

    name: str = Field(examples=["erp"])
    hosts: list[str] = Field(examples=[["erp.example"]])
    created_by: str
    created_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, secret: SecretRecord) -> "SecretBody":
        return cls(
            name=secret.name,
            hosts=list(secret.hosts),
            created_by=secret.created_by,
            created_at=secret.created_at,
            changed_at=secret.changed_at,
        )


@router.get("", response_model=Page[SecretBody], summary="List secrets, by name", responses=documented(422))
async def list_secrets_of_org(
    desk: Look, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Any:
    """For holders of `secrets:manage`. Values are never shown."""
    after = position_of(cursor, text_in)

    require_capability(desk.caller.actor, MANAGE_SECRETS)

    async def work(connection: Connection) -> list[SecretRecord]:
        return await list_secrets(connection, desk.org_id, after, limit + 1)

    return page_of(await desk.read(work, as_owner=True), limit, SecretBody.of, lambda secret: secret.name)


@router.put(
    "/{name}",
    response_model=SecretBody,
    summary="Keep a secret",
    responses=documented(400, 413, 422),
)
async def put_secret_of_org(desk: Write, name: NamePath, body: NewSecretValue) -> Response:
    """For holders of `secrets:manage`. In place of the one of this name; definitions name it `{secret.<name>}`."""

    require_capability(desk.caller.actor, MANAGE_SECRETS)

    async def work(session: Transaction) -> Reply:
        by, now = desk.caller.actor.id, desk.house.database.clock.now()
        secret = (desk.org_id, name, body.value, body.hosts)
        return Reply.of(SecretBody.of(await put_secret(session.connection, *secret, by, now)))

    return await desk.write(work, as_owner=True)


@router.delete(
    "/{name}",
    response_model=SecretBody,
    summary="Forget a secret",
    responses=documented(404, 413, 422),
)
async def delete_secret_of_org(desk: Write, name: NamePath) -> Response:
    """For holders of `secrets:manage`. What would send it fails from now on."""

    require_capability(desk.caller.actor, MANAGE_SECRETS)

    async def work(session: Transaction) -> Reply:
        return Reply.of(SecretBody.of(await delete_secret(session.connection, desk.org_id, name)))

    return await desk.write(work, as_owner=True)
