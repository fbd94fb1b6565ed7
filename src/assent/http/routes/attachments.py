"""Files attached to entities: attach, list, download, remove, erase. `/api/entities/…/attachments`

Attaching and removing are updates of the entity: they make a version, and are refused where an update is.
"""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response
from pydantic import Field

from assent.bodies.attachments import AttachmentBody
from assent.bodies.body import Page
from assent.bodies.instances import EntityBody
from assent.documents.files import ReceivedFile
from assent.http.context import RequestContext, Transaction
from assent.http.fields import NamePath, OptionalVersion, RequestModel, Text, etag
from assent.http.file_replies import FILE_RESPONSES, FileReply, reply_with_file
from assent.http.replies import Reply, reply_with
from assent.http.routes.entities import read_visible_entity, show_written
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router
from assent.runtime.attachment_commands import Attached, attach, check_attaching
from assent.runtime.core import OrgScope

router = Router(
    takes_documents=True,
    prefix="/api/entities/{entity_type}/{entity_id}/attachments",
    tags=["attachments"],
)

FileNameQuery = Annotated[
    str | None,
    Query(max_length=1_000, description="The name of the file.", examples=["invoice.pdf"]),
]
ReasonQuery = Annotated[str | None, Query(max_length=2_000, description="Why; it is kept in the audit log.")]


class RemoveAttachment(RequestModel):
    """Why a file is removed or erased."""

    reason: Annotated[Text, Field(min_length=1)] = Field(examples=["the wrong invoice"])


@router.query("", scope="entities:read", errors=(404,), summary="List the attachments of an entity")
async def list_entity_attachments(
    tx: Transaction, entity_type: NamePath, entity_id: UUID
) -> Page[AttachmentBody]:
    """Those of its current version, in the order in which they were attached."""
    found = await tx.reads.attachments.list(entity_id, entity_type=entity_type)
    return Page[AttachmentBody](items=[AttachmentBody.of_attachment(one) for one in found])


async def _check(scope: OrgScope, arguments: Mapping[str, Any]) -> int:
    return await check_attaching(scope, arguments["entity_id"], arguments["entity_type"])


@router.upload(
    "",
    scope="entities:write",
    rate="entities",
    check=_check,
    errors=(204, 404, 412),
    responses={200: {"model": AttachmentBody, "description": "The entity has these bytes already."}},
    summary="Attach a file to an entity",
)
async def attach_file_to_entity(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    file: ReceivedFile,
    version: OptionalVersion,
    name: FileNameQuery = None,
    reason: ReasonQuery = None,
) -> Reply[AttachmentBody]:
    """For all who may update the entity, as an update: it makes a version. The body is the file."""
    attached = await attach(
        tx.runtime.scope, entity_id, file, entity_type=entity_type, expected_version=version, reason=reason
    )
    return await reply_if_readable(_show(tx, attached), etag=etag(attached.entity.version))


async def _show(tx: Transaction, attached: Attached) -> Reply[AttachmentBody]:
    entity = attached.entity
    tx.may_read(entity.type)
    body, about = AttachmentBody.of_attachment(attached.attachment), f"{entity.type}/{entity.id}"
    headers = {"etag": etag(entity.version)}
    return reply_with(body, 201 if attached.is_new else 200, about=(("entity", about),), headers=headers)


@router.query(
    "/{attachment_id}/content",
    scope="entities:read",
    errors=(404, 416),
    responses=FILE_RESPONSES,
    response_class=FileReply,
    summary="Download an attachment",
)
async def download_entity_attachment(
    context: RequestContext, entity_type: NamePath, entity_id: UUID, attachment_id: UUID
) -> Response:
    """Whole or the range of `Range`, always as an attachment; also one that only earlier versions have."""
    attachments = context.org_runtime().attachments
    opened = await attachments.open(entity_id, attachment_id, entity_type=entity_type)
    return await reply_with_file(context.request, opened)


@router.command(
    "/{attachment_id}/remove",
    scope="entities:write",
    rate="entities",
    errors=(204, 404, 409, 412),
    summary="Remove an attachment from an entity",
)
async def remove_entity_attachment(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    entity_type: NamePath,
    entity_id: UUID,
    attachment_id: UUID,
    body: RemoveAttachment,
    version: OptionalVersion,
) -> Reply[EntityBody]:
    """For all who may update the entity, as an update: versions before keep the file."""
    entity = await tx.runtime.attachments.remove(
        entity_id, attachment_id, body.reason, entity_type=entity_type, expected_version=version
    )
    return await show_written(tx, entity)


@router.command(
    "/{attachment_id}/erase",
    scope="entities:write",
    rate="entities",
    errors=(204, 404, 409),
    summary="Delete the bytes of an attachment",
)
async def erase_entity_attachment(
    tx: Transaction, entity_type: NamePath, entity_id: UUID, attachment_id: UUID, body: RemoveAttachment
) -> Reply[AttachmentBody]:
    """For holders of `documents:erase`. Versions keep its id and SHA-256; its bytes and its name are gone for good."""
    erased = await tx.runtime.attachments.erase(
        entity_id, attachment_id, body.reason, entity_type=entity_type
    )

    async def show() -> Reply[AttachmentBody]:
        await read_visible_entity(tx, entity_type, entity_id)
        about = (("entity", f"{entity_type}/{entity_id}"),)
        return reply_with(AttachmentBody.of_attachment(erased), about=about)

    return await reply_if_readable(show())
