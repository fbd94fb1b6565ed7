"""What is read out of a file: its text, its fields, how good it is; written once, before the review of its version."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from assent.documents.documents import VersionItem
from assent.documents.requirements import event_row, write_events
from assent.model.actor import SYSTEM_ID
from assent.model.canonical import canonical_json, require_canonical
from assent.store.connection import Connection
from assent.store.queries import load_queries
from assent.store.rows import from_row

_SQL: Final = load_queries("assent.documents", "documents.sql")

TEXT_CHARACTERS_MAX: Final = 200_000
"""As much of the text as is kept and searched."""
FIELDS_BYTES_MAX: Final = 65_536
EVERY_TYPE: Final = "*"
"""The extractor of documents whose type has none of its own."""


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file as an extractor gets it: on the disk of the worker, until the extractor returns."""

    path: Path
    document_type: str
    subject: str
    name: str
    found_type: str
    """The type of its bytes, whatever its sender says."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor has read."""

    text: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What is known of the file, such as `pages`; kept and searched beside the text."""
    structured_data: Mapping[str, Any] | None = None
    """The fields of the document, such as its number; kept where its sender gave none."""
    quality_score: float | Decimal | None = None
    extraction_confidence: float | Decimal | None = None
    problem: str | None = None
    """A rejection code, such as `PASSWORD_PROTECTED`, for a file that cannot be read."""

    def to_columns(self) -> tuple[Any, ...]:
        """Return what is kept of it: raise `ValueError` for fields that are too many, or for no percentages."""
        text = None if self.text is None else self.text.replace("\x00", "")[:TEXT_CHARACTERS_MAX]
        found = {**self.fields} | ({"text": text} if text else {})
        found |= {"problem": self.problem} if self.problem else {}
        for part in ({**self.fields}, self.structured_data):
            require_canonical(part)
            if part is not None and len(canonical_json(part)) > FIELDS_BYTES_MAX:
                raise ValueError(f"expected fields of at most {FIELDS_BYTES_MAX:,} bytes")
        data = None if self.structured_data is None else dict(self.structured_data)
        return found, data, _percentage(self.quality_score), _percentage(self.extraction_confidence)


def _percentage(score: float | Decimal | None) -> Decimal | None:
    if score is None:
        return None
    found = round(Decimal(str(score)), 2)
    if not 0 <= found <= 100:
        raise ValueError(f"expected a percentage, found {score}")
    return found


@dataclass(frozen=True, slots=True)
class Extractor:
    """How documents of a type are read, and when what was read rejects them."""

    run: Callable[..., Any]
    """`(file: FileToRead) → Extraction`, plain or async."""
    timeout: timedelta
    reject_below: float | None = None
    """The quality score below which a version is rejected."""
    reject_code: str = "LOW_RESOLUTION"
    rejects: frozenset[str] = frozenset()
    """The problems that reject a version, each with its own code."""

    def rejection_of(self, found: Extraction) -> str | None:
        """Return the code with which a version is rejected; None to leave it to its reviewer."""
        if found.problem is not None and found.problem in self.rejects:
            return found.problem
        if self.reject_below is not None and found.quality_score is not None:
            return self.reject_code if float(found.quality_score) < self.reject_below else None
        return None


async def write_extraction_if_open(
    connection: Connection, org_id: str, version: VersionItem, found: Extraction, now: datetime
) -> bool:
    """Write what was read out of the file of a version; return false if it was read, reviewed or erased before."""
    columns = found.to_columns()
    done = await connection.execute(_SQL.write_extraction_if_open, org_id, version.id, now, *columns)
    if done != "UPDATE 1":
        return False
    about = {"document_id": version.document_id, "version_id": version.id}
    await write_events(connection, [event_row(org_id, "extracted", SYSTEM_ID, now, **about)])
    return True


async def find_version(
    connection: Connection, org_id: str, document_id: UUID, version_id: UUID
) -> tuple[VersionItem, str, str] | None:
    """Return a version with the type and the subject of its document."""
    row = await connection.fetchrow(_SQL.find_version, org_id, document_id, version_id)
    if row is None:
        return None
    return from_row(VersionItem, row), row["document_type"], row["subject"]
