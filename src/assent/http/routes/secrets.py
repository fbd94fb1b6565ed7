"""Secrets that definitions name, `/api/secrets`, and secrets that sign webhooks, `/api/signing-secrets`.

Only the owner of the tables may read values, so these handlers work in the owner's transactions, for the caller's org.
No reply and no audit entry has a value in it.
"""

from typing import Annotated

from pydantic import Field

from assent.bodies.administration import MadeSigningSecret, RetiredSecrets, SigningSecretBody
from assent.bodies.body import ITEMS_DEFAULT, Page
from assent.bodies.people import SecretBody
from assent.effects.named_secrets import (
    HOSTS_MAX,
    MANAGE_SECRETS,
    VALUE_CHARACTERS_MAX,
    VALUE_CHARACTERS_MIN,
    delete_secret,
    list_secrets,
    put_secret,
)
from assent.effects.signing_secrets import list_signing_secrets, retire_old_secrets, rotate_secret
from assent.http.context import Transaction
from assent.http.fields import NamePath, RequestModel, ShortText
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.problems import shown_once
from assent.http.replies import Reply, reply_with
from assent.http.routing import Router
from assent.model.cursor import id_in, position_of, text_in

router = Router(prefix="/api/secrets", tags=["secrets"])
signing = Router(prefix="/api/signing-secrets", tags=["signing secrets"])


class NewSecretValue(RequestModel):
    value: str = Field(
        description="Printable ASCII on one line. It is never shown again.",
        min_length=VALUE_CHARACTERS_MIN,
        max_length=VALUE_CHARACTERS_MAX,
        examples=["kT8vw-2fQ9xL"],
        json_schema_extra={"writeOnly": True},
        repr=False,
    )
    hosts: Annotated[list[ShortText], Field(min_length=1, max_length=HOSTS_MAX)] = Field(
        description="The hosts that it may be sent to, with a port if that is not 443; `*.` for all below a name.",
        examples=[["erp.example"]],
    )


@router.query("", scope="secrets:read", owner_for=MANAGE_SECRETS, summary="List secrets, by name")
async def list_secrets_of_org(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[SecretBody]]:
    """For holders of `secrets:manage`. Values are never shown."""
    after = position_of(cursor, text_in)
    secrets = await list_secrets(tx.connection, tx.org_id, after, limit + 1)
    return page_of(secrets, limit, SecretBody.of, lambda secret: secret.name)


@router.command(
    "/{name}",
    method="PUT",
    scope="secrets:write",
    rate="entities",
    owner_for=MANAGE_SECRETS,
    summary="Save a secret",
)
async def put_secret_of_org(tx: Transaction, name: NamePath, body: NewSecretValue) -> SecretBody:
    """For holders of `secrets:manage`. It replaces the one of this name; definitions name it `{secret.<name>}`."""
    secret = await put_secret(tx.connection, tx.org_id, name, body.value, body.hosts, tx.actor.id, tx.now())
    return SecretBody.of(secret)


@router.command(
    "/{name}",
    method="DELETE",
    scope="secrets:write",
    rate="entities",
    owner_for=MANAGE_SECRETS,
    errors=(404,),
    summary="Delete a secret",
)
async def delete_secret_of_org(tx: Transaction, name: NamePath) -> SecretBody:
    """For holders of `secrets:manage`. Effects that would send it fail from now on."""
    return SecretBody.of(await delete_secret(tx.connection, tx.org_id, name))


@signing.query(
    "", scope="secrets:read", owner_for=MANAGE_SECRETS, summary="List signing secrets, newest first"
)
async def list_signing_secrets_of_org(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[SigningSecretBody]]:
    """For holders of `secrets:manage`: when they were made and retired, never the secrets."""
    found = await list_signing_secrets(tx.connection, tx.org_id, position_of(cursor, id_in), limit + 1)
    return page_of(found, limit, SigningSecretBody.of, lambda secret: str(secret.id))


@signing.command(
    "/rotate",
    scope="secrets:write",
    rate="entities",
    owner_for=MANAGE_SECRETS,
    summary="Make a new signing secret",
)
async def rotate_signing_secret(tx: Transaction) -> Reply[MadeSigningSecret]:
    """For holders of `secrets:manage`. It signs webhooks beside the previous one, until that is retired."""
    secret = await rotate_secret(tx.connection, tx.org_id, tx.now())
    message = "a signing secret was made under this `Idempotency-Key`"
    return shown_once(reply_with(MadeSigningSecret(secret=secret)), tx.request.url.path, message)


@signing.command(
    "/retire",
    scope="secrets:write",
    rate="entities",
    owner_for=MANAGE_SECRETS,
    summary="Retire all signing secrets but the newest",
)
async def retire_signing_secrets(tx: Transaction) -> RetiredSecrets:
    """For holders of `secrets:manage`, when every receiver knows the newest secret."""
    return RetiredSecrets(retired=await retire_old_secrets(tx.connection, tx.org_id, tx.now()))
