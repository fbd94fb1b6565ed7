"""Documents from outside parties, their review, and what is required. `/api/documents`, `/api/requirements`

The outside party creates a document with its version first, and then pushes a result that points to the version.
"""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

import orjson
from fastapi import Query, Request, Response
from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.bodies.documents import (
    CreatedDocument,
    CreatedVersion,
    DocumentBody,
    DocumentDetailsBody,
    FileLinkBody,
    RejectionCodeBody,
    RejectionCodes,
    RequirementBody,
    RequirementCountsBody,
    RequirementDetailsBody,
    SolicitedBody,
)
from assent.documents.documents import NewVersion
from assent.documents.files import ReceivedFile
from assent.http.context import RequestContext, Transaction, services_of
from assent.http.fields import NamePath, NameQuery, RequestModel, ShortText, Text
from assent.http.file_replies import FILE_RESPONSES, FileReply, reply_with_file
from assent.http.links import TokenPath, admit_link, counting_bad_links
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.replies import Reply, reply_with
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Admission, Router
from assent.model.document import (
    MAX_ATTEMPTS,
    DocumentSource,
    RejectionCode,
    RequiredState,
    RequirementStatus,
    VersionStatus,
)
from assent.model.mutation import Refused, Rejection
from assent.model.outside_request import EXPECTED_MAX
from assent.runtime.core import OrgScope
from assent.runtime.document_commands import check_upload, hand_in
from assent.runtime.file_commands import open_by_link

router = Router(takes_documents=True, prefix="/api/documents", tags=["documents"])
downloads = Router(tags=["documents"])
requirements = Router(prefix="/api/requirements", tags=["documents"])
codes = Router(prefix="/api/rejection-codes", tags=["documents"])

DATA_LENGTH_MAX: Final = 4_000
Score = Annotated[Decimal, Field(ge=0, le=100, decimal_places=2)]
ShortType = Annotated[ShortText, Field(max_length=100)]
DataQuery = Annotated[
    str | None,
    Query(
        max_length=DATA_LENGTH_MAX,
        description="JSON: fields that a version holds, given or extracted.",
        examples=['{"number": "C01X00T47"}'],
    ),
]


FileNameQuery = Annotated[
    str | None,
    Query(max_length=1_000, description="The name of the file.", examples=["passport.pdf"]),
]
WordsQuery = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        description="Words that are in the extracted text.",
        examples=["Mustermann"],
    ),
]


class NewDocumentBody(RequestModel):
    """A document to create."""

    document_type: ShortType = Field(examples=["passport"])
    subject: ShortText = Field(description="Whose document it is.", examples=["client-17"])
    source: DocumentSource = "upload"
    source_ref: ShortText | None = Field(None, description="Its id in the system where it comes from.")
    parent_id: UUID | None = Field(None, description="The document that it belongs to.")
    requirement_id: UUID | None = Field(
        None, description="The requirement that it is for: its first version moves it to `received`."
    )


class NewVersionBody(RequestModel):
    """A version to hand in: its fields, or where its file is, or both."""

    content_type: ShortText = "application/json"
    structured_data: Data | None = Field(None, examples=[{"number": "C01X00T47"}])
    blob_ref: Annotated[Text, Field(min_length=1, max_length=1_000)] | None = Field(
        None, description="Where its file is.", examples=["external://vault/passport-17"]
    )
    valid_from: date | None = None
    valid_to: date | None = Field(None, description="The last day on which it is valid.")
    quality_score: Score | None = None
    extraction_confidence: Score | None = None


class VerifyVersion(RequestModel):
    """What the reviewer says of a version that is right."""

    valid_from: date | None = None
    valid_to: date | None = Field(None, description="The last day on which it is valid.")
    reason: Text | None = None


class RejectVersion(RequestModel):
    """Why a version is rejected."""

    code: ShortText = Field(examples=["UNREADABLE"])
    reason: Text | None = Field(None, description="For colleagues; the client reads the message of the code.")


class EraseVersion(RequestModel):
    """Why the content of a version is deleted."""

    reason: Annotated[Text, Field(min_length=1)] = Field(examples=["the client asked for it"])


async def _show(tx: Transaction, document_id: UUID) -> Reply[DocumentDetailsBody]:
    found = await tx.reads.documents.get(document_id)
    body = DocumentDetailsBody.of_details(found)
    return reply_with(body, about=(("document", str(document_id)),))


async def read_visible_document(tx: Transaction, document_id: UUID) -> object:
    """Return a document that the caller may read."""
    return await tx.reads.documents.get(document_id)


async def read_visible_requirement(tx: Transaction, requirement_id: UUID) -> object:
    """Return a requirement that the caller may read."""
    return await tx.reads.requirements.get(requirement_id)


@router.command(
    "", scope="documents:write", rate="workflows", status=201, errors=(404,), summary="Create a document"
)
async def create_document(tx: Transaction, body: NewDocumentBody) -> CreatedDocument:
    """For holders of `documents:write`. Its content comes with its versions."""
    document = await tx.runtime.documents.create(**body.model_dump())
    return CreatedDocument(id=document.id)


@router.query("", scope="documents:read", summary="List and search documents, newest first")
async def list_documents(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    document_type: NameQuery = None,
    subject: NameQuery = None,
    requirement_id: UUID | None = None,
    status: VersionStatus | None = None,
    fields: DataQuery = None,
    q: WordsQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[DocumentBody]]:
    """For holders of `documents:read`. `status` is that of the latest version."""
    page = await tx.reads.documents.list(
        document_type=document_type,
        subject=subject,
        requirement_id=requirement_id,
        status=status,
        fields=_fields_of(fields),
        q=q,
        cursor=cursor,
        limit=limit,
    )
    return reply_with_page(page, DocumentBody.of)


def _fields_of(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Refused(Rejection("BAD_VALUE", "a JSON object was expected", ("query", "fields")))
    return found


@router.query(
    "/{document_id}", scope="documents:read", errors=(404,), summary="Read a document and its versions"
)
async def show_document(tx: Transaction, document_id: UUID) -> Reply[DocumentDetailsBody]:
    """For holders of `documents:read`, with its versions, their review, and what happened to it."""
    return await _show(tx, document_id)


@router.command(
    "/{document_id}/versions",
    scope="documents:write",
    rate="workflows",
    status=201,
    errors=(404,),
    summary="Hand in a version of a document",
)
async def add_document_version(tx: Transaction, document_id: UUID, body: NewVersionBody) -> CreatedVersion:
    """For holders of `documents:write`. A result points to it by its `cargo`."""
    version = await tx.runtime.documents.add_version(document_id, **body.model_dump())
    return CreatedVersion.at(version.id, version.document_id, version.version_no)


async def _check_upload(scope: OrgScope, arguments: Mapping[str, Any]) -> int:
    return await check_upload(scope, arguments["document_id"])


@router.upload(
    "/{document_id}/versions",
    scope="documents:write",
    rate="workflows",
    check=_check_upload,
    errors=(404,),
    summary="Upload a file as the next version of a document",
)
async def upload_document_version(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    document_id: UUID,
    file: ReceivedFile,
    name: FileNameQuery = None,
    valid_from: date | None = None,
    valid_to: date | None = None,
) -> CreatedVersion:
    """For holders of `documents:write`. The body is the file, of the type that `Content-Type` says."""
    scope = tx.runtime.scope
    new = NewVersion(scope.new_id(), file.content_type, valid_from=valid_from, valid_to=valid_to, file=file)
    version = await hand_in(scope, document_id, new)
    return CreatedVersion.at(version.id, version.document_id, version.version_no)


@router.query(
    "/{document_id}/versions/{version_id}/content",
    scope="documents:read",
    errors=(404, 416),
    responses=FILE_RESPONSES,
    response_class=FileReply,
    summary="Download the file of a version",
)
async def download_document_version(context: RequestContext, document_id: UUID, version_id: UUID) -> Response:
    """For holders of `documents:read`, whole or the range of `Range`; always as an attachment."""
    opened = await context.org_runtime().documents.open(document_id, version_id)
    return await reply_with_file(context.request, opened)


@router.query(
    "/{document_id}/versions/{version_id}/link",
    scope="documents:read",
    rate="workflows",
    method="POST",
    errors=(404,),
    summary="Make a link to the file of a version",
)
async def link_document_version(context: RequestContext, document_id: UUID, version_id: UUID) -> FileLinkBody:
    """For holders of `documents:read`. It holds for some minutes, for everyone who has it."""
    documents = context.org_runtime().documents
    found = await documents.link(document_id, version_id, base_url=str(context.request.base_url))
    return FileLinkBody(url=found.url, expires_at=found.expires_at)


@downloads.unsigned(
    "/downloads/{token}",
    method="GET",
    admission=Admission(admit_link),
    errors=(404, 410, 416, 422, 429, 503),
    responses=FILE_RESPONSES,
    response_class=FileReply,
    summary="Download a file by a link",
)
async def download_by_link(request: Request, token: TokenPath) -> Response:
    """For the holder of the link, until it expires or the version is erased."""
    services = services_of(request)
    with counting_bad_links(request):
        opened = await open_by_link(services.runtime.core, token)
    return await reply_with_file(request, opened)


@router.command(
    "/{document_id}/versions/{version_id}/verify",
    scope="documents:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Verify a version",
)
async def verify_version(
    tx: Transaction, document_id: UUID, version_id: UUID, body: VerifyVersion
) -> Reply[DocumentDetailsBody]:
    """For holders of `documents:review` who did not hand it in. What waits for it goes on."""
    await tx.runtime.documents.verify(document_id, version_id, **body.model_dump())
    return await reply_if_readable(_show(tx, document_id))


@router.command(
    "/{document_id}/versions/{version_id}/reject",
    scope="documents:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Reject a version",
)
async def reject_version(
    tx: Transaction, document_id: UUID, version_id: UUID, body: RejectVersion
) -> Reply[DocumentDetailsBody]:
    """For holders of `documents:review` who did not hand it in. The client is asked again, if the code allows it."""
    await tx.runtime.documents.reject(document_id, version_id, body.code, body.reason)
    return await reply_if_readable(_show(tx, document_id))


@router.command(
    "/{document_id}/versions/{version_id}/erase",
    scope="documents:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Delete the content of a version",
)
async def erase_document_version(
    tx: Transaction, document_id: UUID, version_id: UUID, body: EraseVersion
) -> Reply[DocumentDetailsBody]:
    """For holders of `documents:erase`. The row of the version stays, with its review; its content is gone for good."""
    await tx.runtime.documents.erase(document_id, version_id, body.reason)
    return await reply_if_readable(_show(tx, document_id))


class NewRequirement(RequestModel):
    """A document to require."""

    subject: ShortText = Field(examples=["client-17"])
    doc_type: ShortType = Field(examples=["passport"])
    instance_id: UUID | None = Field(
        None, description="The instance that requires it; none for the subject alone."
    )
    required_state: RequiredState = "verified"
    max_attempts: int = Field(MAX_ATTEMPTS, ge=1, le=100, description="The rounds of asking.")
    due_date: date | None = None


class Solicit(RequestModel):
    """Documents to ask an outside party for, in one request."""

    subject: ShortText = Field(examples=["client-17"])
    doc_types: list[ShortType] = Field(min_length=1, max_length=EXPECTED_MAX, examples=[["passport"]])
    instance_id: UUID | None = Field(
        None, description="The instance that requires them; none for the subject alone."
    )
    notify: ShortText | None = Field(
        None, description="The e-mail address to which the request is sent.", examples=["cy@mail.example"]
    )
    webhook: Annotated[Text, Field(min_length=1, max_length=1_000)] | None = Field(
        None, description="The URL to which the request is posted."
    )


class RequirementReason(RequestModel):
    """Why a requirement is waived or reset."""

    reason: Annotated[Text, Field(min_length=1)] = Field(examples=["known for years"])


async def _show_requirement(tx: Transaction, requirement_id: UUID) -> Reply[RequirementDetailsBody]:
    found = await tx.reads.requirements.get(requirement_id)
    body = RequirementDetailsBody.of_details(found)
    return reply_with(body, about=(("requirement", str(requirement_id)),))


@requirements.command(
    "", scope="documents:write", rate="workflows", status=201, errors=(404, 409), summary="Require a document"
)
async def create_requirement(tx: Transaction, body: NewRequirement) -> CreatedDocument:
    """For holders of `requirements:manage`, of an instance that they may read or of a subject."""
    created = await tx.runtime.requirements.create(**body.model_dump())
    return CreatedDocument(id=created.id)


@requirements.query("", scope="documents:read", summary="List requirements, newest first")
async def list_requirements(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    instance_id: UUID | None = None,
    subject: NameQuery = None,
    doc_type: NameQuery = None,
    status: RequirementStatus | None = None,
    code: NameQuery = None,
    due_before: date | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[RequirementBody]]:
    """For holders of `documents:read`. `code` is that of the last rejection; `due_before` leaves what is still open."""
    page = await tx.reads.requirements.list(
        instance_id=instance_id,
        subject=subject,
        doc_type=doc_type,
        status=status,
        code=code,
        due_before=due_before,
        cursor=cursor,
        limit=limit,
    )
    return reply_with_page(page, RequirementBody.of_requirement)


@requirements.query("/count", scope="documents:read", summary="Count requirements by status")
async def count_requirements_of_org(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    instance_id: UUID | None = None,
    subject: NameQuery = None,
    doc_type: NameQuery = None,
    status: RequirementStatus | None = None,
    code: NameQuery = None,
    due_before: date | None = None,
) -> RequirementCountsBody:
    """For holders of `documents:read`, with the filters of a list; exact up to 10,000 of each status."""
    found = await tx.reads.requirements.count(
        instance_id=instance_id,
        subject=subject,
        doc_type=doc_type,
        status=status,
        code=code,
        due_before=due_before,
    )
    return RequirementCountsBody.of(found)


@requirements.command(
    "/solicit",
    scope="documents:write",
    rate="workflows",
    status=201,
    errors=(404, 409),
    summary="Ask an outside party for documents",
)
async def solicit_documents(tx: Transaction, body: Solicit) -> SolicitedBody:
    """For holders of `requirements:manage`. What is not required yet is required from now on."""
    asked = await tx.runtime.requirements.solicit(**body.model_dump())
    return SolicitedBody(request_id=asked.request_id, requirement_ids=[one.id for one in asked.requirements])


@requirements.query("/{requirement_id}", scope="documents:read", errors=(404,), summary="Read a requirement")
async def show_requirement(tx: Transaction, requirement_id: UUID) -> Reply[RequirementDetailsBody]:
    """For holders of `documents:read`, with what happened to it."""
    return await _show_requirement(tx, requirement_id)


@requirements.command(
    "/{requirement_id}/waive",
    scope="documents:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Do without a document",
)
async def waive_requirement(
    tx: Transaction, requirement_id: UUID, body: RequirementReason
) -> Reply[RequirementDetailsBody]:
    """For holders of `requirements:waive`. What waits for the document goes on."""
    await tx.runtime.requirements.waive(requirement_id, body.reason)
    return await reply_if_readable(_show_requirement(tx, requirement_id))


@requirements.command(
    "/{requirement_id}/reset",
    scope="documents:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Begin a requirement again",
)
async def reset_requirement(
    tx: Transaction, requirement_id: UUID, body: RequirementReason
) -> Reply[RequirementDetailsBody]:
    """For holders of `requirements:manage`, with all rounds of asking. What was handed in stays on record."""
    await tx.runtime.requirements.reset(requirement_id, body.reason)
    return await reply_if_readable(_show_requirement(tx, requirement_id))


class RejectionWords(RequestModel):
    """The words of a rejection code."""

    category: Annotated[ShortText, Field(max_length=50)] = Field(examples=["quality"])
    client_message: Annotated[Text, Field(max_length=500)] = Field(examples=["The document is folded."])
    ops_message: Annotated[Text, Field(max_length=500)] = Field(examples=["Folded."])
    next_action: Annotated[Text, Field(max_length=500)] = Field(examples=["Please unfold it."])
    retryable: bool = True
    translations: dict[str, dict[str, str]] = Field(
        {}, max_length=50, description="Language → `client_message` and `next_action`."
    )


@codes.query("", scope="documents:read", summary="List rejection codes")
async def list_rejection_codes_of_org(tx: Transaction) -> RejectionCodes:
    """Those of all orgs, and those of the caller's own."""
    return RejectionCodes(
        items=[RejectionCodeBody.of(one) for one in await tx.reads.requirements.list_codes()]
    )


@codes.command(
    "/{code}", method="PUT", scope="documents:write", rate="workflows", summary="Save a rejection code"
)
async def save_rejection_code(tx: Transaction, code: NamePath, body: RejectionWords) -> RejectionCodeBody:
    """For holders of `requirements:manage`; one of all orgs is said in the org's own words from then on."""
    saved = await tx.runtime.requirements.save_code(RejectionCode(code, **body.model_dump()))
    return RejectionCodeBody.of(saved)
