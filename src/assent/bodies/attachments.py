"""The body of a file that is attached to an entity."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ResponseModel
from assent.documents.files import Attachment


class AttachmentBody(ResponseModel):
    """A file that is attached to an entity, or was."""

    id: UUID
    file_name: str | None = Field(
        description="As its sender calls it, cleaned; null if it was erased.", examples=["invoice.pdf"]
    )
    content_type: str = Field(description="What its first bytes are.", examples=["application/pdf"])
    size_bytes: int
    sha256: str
    attached_at: datetime
    attached_by: str = Field(examples=["ann"])
    is_erased: bool = Field(description="Whether its bytes and its name were deleted.")

    @classmethod
    def of_attachment(cls, found: Attachment) -> "AttachmentBody":
        """Return the body of an attachment."""
        return cls(**{name: getattr(found, name) for name in cls.model_fields})
