"""Bodies of documents, their versions and their review, of what is required, and of rejection codes."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ResponseModel
from assent.documents.documents import VersionItem
from assent.model.document import (
    BlobStatus,
    DocumentRequirement,
    DocumentSource,
    RequiredState,
    RequirementStatus,
    VersionStatus,
)
from assent.runtime.document_commands import DocumentDetails, RequirementDetails
from assent.runtime.upload_commands import AskedUploads
from assent.runtime.verb_commands import ListedVerb


class CreatedDocument(ResponseModel):
    """A document that was created."""

    id: UUID


class CreatedVersion(ResponseModel):
    """A version that was handed in."""

    id: UUID
    document_id: UUID
    version_no: int
    cargo: str = Field(
        description="How a result points to it.",
        examples=["version://assent/01890a5d-ac96-774b-bcce-b302099a8057"],
    )

    @classmethod
    def at(cls, version_id: UUID, document_id: UUID, version_no: int) -> "CreatedVersion":
        """Return the body of a version."""
        cargo = f"version://assent/{version_id}"
        return cls(id=version_id, document_id=document_id, version_no=version_no, cargo=cargo)


class DocumentBody(ResponseModel):
    """A document, with its latest version."""

    id: UUID
    document_type: str = Field(examples=["passport"])
    subject: str = Field(description="Whose document it is.", examples=["client-17"])
    source: DocumentSource
    source_ref: str | None = Field(description="Its id in the system where it comes from.")
    parent_id: UUID | None = Field(description="The document that it belongs to.")
    requirement_id: UUID | None = Field(description="The requirement that it is handed in for.")
    partition_id: str | None
    created_at: datetime
    created_by: str
    version_id: UUID | None
    version_no: int | None
    status: VersionStatus | None = Field(description="The review of the latest version.")


class FileBody(ResponseModel):
    """The file of a version, in our store."""

    name: str | None = Field(description="As its sender calls it, cleaned.", examples=["passport.pdf"])
    type: str = Field(
        description="The type of its bytes, whatever its sender says.", examples=["application/pdf"]
    )
    size_bytes: int
    sha256: str
    status: BlobStatus = Field(
        description="`deleting` after an erasure, and `deleted` when the bytes are gone."
    )


class FileLinkBody(ResponseModel):
    """A link to a file, for everyone who has it."""

    url: str = Field(examples=["https://assent.example.com/downloads/…"])
    expires_at: datetime


class AskedDocumentBody(ResponseModel):
    """A document that is asked for."""

    doc_type: str = Field(examples=["passport"])
    attempt: int = Field(description="Which round of asking this is.")
    message: str | None = Field(description="What was wrong with the last one, and what to do.")
    handed_in_at: datetime | None
    due_date: date | None = Field(description="The day until which it is wanted.")


class AskedUploadsBody(ResponseModel):
    """What an outside party is asked for by its link."""

    org_name: str = Field(description="Who asks.", examples=["Acme Ltd"])
    language: str | None = Field(description="That of the messages, if the org has set one.", examples=["de"])
    documents: list[AskedDocumentBody]
    expires_at: datetime = Field(description="When the link ends.")
    bytes_max: int = Field(description="The size that a file may have.")

    @classmethod
    def of_uploads(cls, found: AskedUploads) -> "AskedUploadsBody":
        """Return the body of what is asked for."""
        documents = [AskedDocumentBody.of(one) for one in found.documents]
        names = set(cls.model_fields) - {"documents"}
        return cls(documents=documents, **{name: getattr(found, name) for name in names})


class HandedInBody(ResponseModel):
    """A file that has come."""

    doc_type: str = Field(examples=["passport"])
    name: str | None = Field(examples=["passport.pdf"])
    handed_in_at: datetime


class DocumentVersionBody(ResponseModel):
    """One version of a document, with its content and its review."""

    id: UUID
    document_id: UUID
    version_no: int
    content_type: str = Field(description="As its sender says.", examples=["application/json"])
    file: FileBody | None = Field(description="Its file, if it was uploaded here.")
    structured_data: dict[str, Any] | None = Field(description="Its fields; null after they were erased.")
    blob_ref: str | None = Field(description="Where its file is.", examples=["external://vault/passport-17"])
    ocr_extracted: dict[str, Any] | None = Field(description="What was read out of the file.")
    request_id: UUID | None = Field(description="The outside request whose result it was.")
    status: VersionStatus
    rejection_code: str | None = Field(examples=["UNREADABLE"])
    rejection_reason: str | None
    verified_by: str | None = Field(description="The user who verified or rejected it.")
    verified_at: datetime | None
    valid_from: date | None
    valid_to: date | None = Field(description="The last day on which it is valid.")
    quality_score: Decimal | None
    extraction_confidence: Decimal | None
    created_at: datetime
    created_by: str
    erased_at: datetime | None
    erased_by: str | None
    extracted_at: datetime | None = Field(description="When its file was read.")

    @classmethod
    def of_version(cls, found: VersionItem) -> "DocumentVersionBody":
        """Return the body of a version."""
        file = None
        if found.blob_id is not None and found.found_type is not None and found.blob_status is not None:
            about = {"size_bytes": found.size_bytes, "sha256": found.sha256, "status": found.blob_status}
            file = FileBody(name=found.file_name, type=found.found_type, **about)
        names = set(cls.model_fields) - {"file"}
        return cls(file=file, **{name: getattr(found, name) for name in names})


class DocumentEventBody(ResponseModel):
    """Something that happened to a document, to a version or to a requirement."""

    id: UUID
    type: str = Field(examples=["rejected"])
    requirement_id: UUID | None
    document_id: UUID | None
    version_id: UUID | None
    old_status: str | None
    new_status: str | None
    rejection_code: str | None
    notes: str | None
    actor_id: str
    at: datetime


class DocumentDetailsBody(ResponseModel):
    """A document with its versions and what happened to it, the latest first."""

    document: DocumentBody
    versions: list[DocumentVersionBody]
    events: list[DocumentEventBody]

    @classmethod
    def of_details(cls, found: DocumentDetails) -> "DocumentDetailsBody":
        """Return the body of a document."""
        return cls(
            document=DocumentBody.of(found.document),
            versions=[DocumentVersionBody.of_version(one) for one in found.versions],
            events=[DocumentEventBody.of(one) for one in found.events],
        )


class RequirementBody(ResponseModel):
    """A document that is required of a subject."""

    id: UUID
    instance_id: UUID | None
    partition_id: str | None
    subject: str = Field(examples=["client-17"])
    doc_type: str = Field(examples=["passport"])
    required_state: RequiredState = Field(description="How far the document must come.")
    status: RequirementStatus
    attempt_count: int = Field(description="The rounds of asking so far.")
    max_attempts: int
    request_id: UUID | None = Field(description="The outside request that asks for it, or asked last.")
    document_id: UUID | None
    version_id: UUID | None
    rejection_code: str | None = Field(examples=["UNREADABLE"])
    rejection_reason: str | None
    message: str | None = Field(description="What the client reads about the last rejection.")
    waived_by: str | None
    due_date: date | None
    valid_to: date | None
    requested_at: datetime | None
    satisfied_at: datetime | None = Field(description="When it reached the required state.")
    created_at: datetime

    @classmethod
    def of_requirement(cls, found: DocumentRequirement) -> "RequirementBody":
        """Return the body of a requirement."""
        message = found.rejection.message() if found.rejection is not None else None
        names = set(cls.model_fields) - {"message"}
        return cls(message=message, **{name: getattr(found, name) for name in names})


class RequirementDetailsBody(ResponseModel):
    """A requirement with what happened to it, the latest first."""

    requirement: RequirementBody
    events: list[DocumentEventBody]

    @classmethod
    def of_details(cls, found: RequirementDetails) -> "RequirementDetailsBody":
        """Return the body of a requirement and its events."""
        requirement = RequirementBody.of_requirement(found.requirement)
        return cls(requirement=requirement, events=[DocumentEventBody.of(one) for one in found.events])


class RequirementCountsBody(ResponseModel):
    """How many requirements a list has."""

    statuses: dict[str, int] = Field(
        description="By status, exact up to 10,000 of each.", examples=[{"missing": 3, "requested": 17}]
    )
    more: bool = Field(description="Whether one of them has more.")


class SolicitedBody(ResponseModel):
    """A request that was made of an outside party."""

    request_id: UUID = Field(description="The outside request: results are pushed for it.")
    requirement_ids: list[UUID] = Field(description="What it asks for.")


class VerbArgumentBody(ResponseModel):
    """An argument of a verb, given as `:name value`."""

    name: str = Field(examples=["subject-entity-id"])
    type: str = Field(examples=["string"])
    items: str | None = Field(description="What a list holds.")
    required: bool
    default: Any
    values: list[str] | None = Field(description="The only texts that are accepted.")
    description: str


class VerbBody(ResponseModel):
    """A verb that can be called."""

    name: str = Field(examples=["document.create"])
    description: str
    capability: str = Field(description="What a caller must hold.", examples=["documents:write"])
    args: list[VerbArgumentBody]

    @classmethod
    def of_verb(cls, verb: ListedVerb) -> "VerbBody":
        """Return the body of a verb."""
        args = [VerbArgumentBody(**one.model_dump(exclude={"of"}), items=one.of) for one in verb.spec.args]
        spec = verb.spec
        return cls(name=verb.name, description=spec.description, capability=spec.capability, args=args)


class VerbList(ResponseModel):
    """The verbs that there are, by name."""

    items: list[VerbBody]


class VerbResult(ResponseModel):
    """What a verb returned."""

    result: Any = Field(examples=[{"document_id": "01890a5d-ac96-774b-bcce-b302099a8057"}])


class RejectionCodeBody(ResponseModel):
    """Why a version is rejected, and what the client can do about it."""

    code: str = Field(examples=["UNREADABLE"])
    category: str = Field(examples=["quality"])
    client_message: str
    ops_message: str
    next_action: str
    retryable: bool = Field(description="Whether the client can hand in another one.")
    translations: dict[str, dict[str, str]] = Field(
        description="Language → `client_message` and `next_action`."
    )


class RejectionCodes(ResponseModel):
    """The rejection codes of an org, by name."""

    items: list[RejectionCodeBody]
