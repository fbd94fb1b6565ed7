"""Documents and their versions: handed in, reviewed, searched, erased; and the results that point to them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from assent.audit.entries import AuditEntry, write_entries
from assent.documents.files import ReceivedFile, erase_blob, erase_blobs, keep_blob_if_uploading
from assent.documents.requirements import (
    ActorsChange,
    event_row,
    lock_requirements,
    lock_requirements_of_version,
    requirement_from,
    write_events,
    write_requirements,
)
from assent.model.actor import BY_WORKERS, SYSTEM, SYSTEM_ID, Actor, Origin
from assent.model.document import (
    BlobStatus,
    DocumentRequirement,
    DocumentSource,
    RejectionCode,
    RequirementChange,
    VersionStatus,
)
from assent.model.outside_request import OURS, Bundle, Cargo, parse_cargo
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import from_row

_SQL: Final = load_queries("assent.documents", "documents.sql")

SHOWN_MAX: Final = 500
"""How many versions, and how many events, of one document are shown: the latest."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document that is handed in."""

    id: UUID
    document_type: str
    subject: str
    source: DocumentSource = "upload"
    source_ref: str | None = None
    parent_id: UUID | None = None
    requirement_id: UUID | None = None
    partition_id: str | None = None


@dataclass(frozen=True, slots=True)
class NewVersion:
    """One submission of a document."""

    id: UUID
    content_type: str
    structured_data: Mapping[str, Any] | None = None
    blob_ref: str | None = None
    valid_from: date | None = None
    valid_to: date | None = None
    quality_score: Decimal | None = None
    extraction_confidence: Decimal | None = None
    file: ReceivedFile | None = None
    """Its file in our store."""
    request_id: UUID | None = None
    """The outside request by whose link it was handed in."""


@dataclass(frozen=True, slots=True)
class DocumentItem:
    """A document in a list, with its latest version."""

    id: UUID
    document_type: str
    subject: str
    source: DocumentSource
    source_ref: str | None
    parent_id: UUID | None
    requirement_id: UUID | None
    partition_id: str | None
    created_at: datetime
    created_by: str
    version_id: UUID | None = None
    version_no: int | None = None
    status: VersionStatus | None = None


@dataclass(frozen=True, slots=True)
class VersionItem:
    """One version of a document, with its content and its review."""

    id: UUID
    document_id: UUID
    version_no: int
    content_type: str
    structured_data: Mapping[str, Any] | None
    blob_ref: str | None
    ocr_extracted: Mapping[str, Any] | None
    request_id: UUID | None
    status: VersionStatus
    rejection_code: str | None
    rejection_reason: str | None
    verified_by: str | None
    verified_at: datetime | None
    valid_from: date | None
    valid_to: date | None
    quality_score: Decimal | None
    extraction_confidence: Decimal | None
    created_at: datetime
    created_by: str
    maker_id: str | None
    erased_at: datetime | None
    erased_by: str | None
    extracted_at: datetime | None = None
    blob_id: UUID | None = None
    blob_status: BlobStatus | None = None
    file_name: str | None = None
    found_type: str | None = None
    """What the first bytes of its file are; `content_type` is what its sender said."""
    size_bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentEvent:
    """What happened to a document, a version or a requirement."""

    id: UUID
    requirement_id: UUID | None
    document_id: UUID | None
    version_id: UUID | None
    type: str
    old_status: str | None
    new_status: str | None
    rejection_code: str | None
    notes: str | None
    actor_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    """Which documents are listed; of everything that is not said, all."""

    document_type: str | None = None
    subject: str | None = None
    requirement_id: UUID | None = None
    status: VersionStatus | None = None
    """Of the latest version."""
    partition_id: str | None = None
    data: Mapping[str, Any] | None = None
    """Fields, or extracted fields, that a version contains."""
    words: str | None = None
    """Words that are in the extracted text of a version, all of them."""


async def insert_document(
    connection: Connection, org_id: str, new: NewDocument, by: Actor, now: datetime
) -> None:
    about = (new.partition_id, new.document_type, new.subject, new.parent_id, new.requirement_id)
    await connection.execute(
        _SQL.insert_document, org_id, new.id, *about, new.source, new.source_ref, now, by.id
    )
    await write_events(connection, [event_row(org_id, "created", by.id, now, document_id=new.id)])


async def find_document(connection: Connection, org_id: str, document_id: UUID) -> DocumentItem | None:
    row = await connection.fetchrow(_SQL.find_document, org_id, document_id)
    return from_row(DocumentItem, row) if row is not None else None


async def insert_version(  # noqa: PLR0913, PLR0917
    connection: Connection, org_id: str, document: DocumentItem, new: NewVersion, by: Actor, now: datetime
) -> None:
    """Add the next version of a document; what the document is handed in for moves to `received`."""
    if new.file is not None:
        await keep_blob_if_uploading(connection, org_id, new.file)
    await connection.execute(_SQL.lock_document, org_id, str(document.id))
    number = 1 + await connection.fetchval(_SQL.count_versions, org_id, document.id)
    data = None if new.structured_data is None else dict(new.structured_data)
    content = (new.content_type, data, new.blob_ref, new.valid_from, new.valid_to)
    figures = (new.quality_score, new.extraction_confidence)
    blob_id = new.file.blob_id if new.file is not None else None
    made = (now, by.id, by.maker_id, blob_id, new.request_id)
    await connection.execute(
        _SQL.insert_version, org_id, new.id, document.id, number, *content, *figures, *made
    )
    about = {"document_id": document.id, "version_id": new.id, "new_status": "pending"}
    await write_events(connection, [event_row(org_id, "version_uploaded", by.id, now, **about)])
    if document.requirement_id is not None:
        rows = await lock_requirements(connection, org_id, [document.requirement_id])
        changes = [change for row in rows for change in _arrive(row, document.id, new.id, now)]
        await write_requirements(connection, [ActorsChange(one, by.id) for one in changes], now)


def _arrive(
    row: DocumentRequirement, document_id: UUID, version_id: UUID, now: datetime
) -> list[RequirementChange]:
    if row.version_id == version_id and row.status in ("received", "in_qa"):
        return []  # it was handed in for the requirement already
    values = [row, *row.arrive(document_id, version_id, now)]
    return [RequirementChange(*pair) for pair in pairwise(values)]


@dataclass(frozen=True, slots=True)
class LockedVersion:
    """A version that is about to be reviewed or erased."""

    version: VersionItem
    partition_id: str | None


async def lock_version(
    connection: Connection, org_id: str, document_id: UUID, version_id: UUID
) -> LockedVersion | None:
    row = await connection.fetchrow(_SQL.lock_version, org_id, document_id, version_id)
    return LockedVersion(from_row(VersionItem, row), row["partition_id"]) if row is not None else None


@dataclass(frozen=True, slots=True)
class Review:
    """What a reviewer says of a version."""

    rejection: RejectionCode | None = None
    """None where it is verified."""
    reason: str | None = None
    valid_from: date | None = None
    valid_to: date | None = None

    @property
    def status(self) -> VersionStatus:
        return "verified" if self.rejection is None else "rejected"


async def write_review(  # noqa: PLR0913, PLR0917
    connection: Connection, org_id: str, version: VersionItem, review: Review, by: Actor, now: datetime
) -> None:
    """Write the end of a review, and move what waits for it: only the latest version of a requirement counts."""
    code = review.rejection.code if review.rejection is not None else None
    valid = (review.valid_from, review.valid_to)
    await connection.execute(
        _SQL.review_version_if_open,
        org_id,
        version.id,
        review.status,
        code,
        review.reason,
        by.id,
        now,
        *valid,
    )
    about = {"document_id": version.document_id, "version_id": version.id, "rejection_code": code}
    moved = {"old_status": version.status, "new_status": review.status, "notes": review.reason}
    await write_events(connection, [event_row(org_id, review.status, by.id, now, **about, **moved)])
    rows = await lock_requirements_of_version(connection, org_id, version.id)
    valid_to = review.valid_to or version.valid_to
    changes = [change for row in rows for change in _reviewed(row, review, valid_to, now)]
    await write_requirements(connection, [ActorsChange(one, by.id, review.reason) for one in changes], now)


def _reviewed(
    row: DocumentRequirement, review: Review, valid_to: date | None, now: datetime
) -> list[RequirementChange]:
    if row.status not in ("received", "in_qa"):
        return []
    values = [row, row.begin_review()] if row.status == "received" else [row]
    last = values[-1]
    if review.rejection is None:
        values.append(last.verify(now, valid_to))
    else:
        values.append(last.reject(review.rejection, review.reason))
    return [RequirementChange(*pair) for pair in pairwise(values)]


async def erase_version(  # noqa: PLR0913, PLR0917
    connection: Connection, org_id: str, version: VersionItem, reason: str, by: Actor, now: datetime
) -> bool:
    """Delete the content of a version; return false if it was deleted before."""
    done = await connection.execute(_SQL.erase_version_if_kept, org_id, version.id, now, by.id)
    if done != "UPDATE 1":
        return False
    if version.blob_id is not None:
        await erase_blob(connection, org_id, version.blob_id)
    about = {"document_id": version.document_id, "version_id": version.id, "notes": reason}
    await write_events(connection, [event_row(org_id, "erased", by.id, now, **about)])
    return True


async def erase_old_versions(connection: Connection, limit: int, now: datetime) -> int:
    """Delete the content of versions that orgs keep no longer; return how many. Each is an event and an audit entry."""
    rows = await connection.fetch(_SQL.erase_versions_beyond_retention, limit, SYSTEM_ID)
    await erase_blobs(
        connection, [(row["org_id"], row["blob_id"]) for row in rows if row["blob_id"] is not None]
    )
    events, entries = [], []
    for row in rows:
        reason = f"kept for {row['days']} days"
        about = {"document_id": row["document_id"], "version_id": row["id"], "notes": reason}
        events.append(event_row(row["org_id"], "erased", SYSTEM_ID, now, **about))
        details = {"version": str(row["id"]), "reason": reason}
        document_id, origin = str(row["document_id"]), Origin(BY_WORKERS)
        entry = AuditEntry(row["org_id"], SYSTEM, "document.erase", "document", document_id, origin, details)
        entries.append(entry)
    await write_events(connection, events)
    await write_entries(connection, entries, now)
    return len(rows)


async def page_of_documents(
    connection: Connection, org_id: str, wanted: DocumentFilter, after: UUID | None, limit: int
) -> list[DocumentItem]:
    """Return documents, newest first."""
    which = (wanted.document_type, wanted.subject, wanted.requirement_id, wanted.status, wanted.partition_id)
    data = None if wanted.data is None else dict(wanted.data)
    rows = await connection.fetch(_SQL.page_of_documents, org_id, *which, data, after, limit, wanted.words)
    return [from_row(DocumentItem, row) for row in rows]


async def list_versions(connection: Connection, org_id: str, document_id: UUID) -> list[VersionItem]:
    """Return the versions of a document, the latest first."""
    rows = await connection.fetch(_SQL.list_versions, org_id, document_id, SHOWN_MAX)
    return [from_row(VersionItem, row) for row in rows]


async def list_events(
    connection: Connection,
    org_id: str,
    *,
    document_id: UUID | None = None,
    requirement_id: UUID | None = None,
) -> list[DocumentEvent]:
    """Return what happened to a document or to a requirement, the latest first."""
    rows = await connection.fetch(_SQL.list_document_events, org_id, document_id, requirement_id, SHOWN_MAX)
    return [from_row(DocumentEvent, row) for row in rows]


def versions_in(bundle: Bundle) -> list[UUID]:
    """Return the versions that a bundle points to."""
    found = (parse_cargo(item.cargo) for item in bundle.items if item.cargo is not None)
    return [UUID(one.id) for one in found if isinstance(one, Cargo) and _is_version(one)]


def _is_version(cargo: Cargo) -> bool:
    return cargo.kind == "version" and cargo.place == OURS


async def find_unknown_version(
    connection: Connection, org_id: str, request_id: UUID, versions: Sequence[UUID]
) -> UUID | None:
    """Return the first of these versions that is not there."""
    rows = (
        await connection.fetch(_SQL.find_unknown_versions, org_id, request_id, list(versions))
        if versions
        else []
    )
    return rows[0]["id"] if rows else None


@dataclass(frozen=True, slots=True)
class CompletedCargo:
    """The cargo of a completed item of a request."""

    org_id: str
    request_id: UUID
    cargo: str
    is_late: bool = False
    """Whether it came when its request had ended."""


async def receive_results(connection: Connection, results: Iterable[CompletedCargo], now: datetime) -> None:
    """Link versions to the requests whose results they are, and move what these asked for to `received`.

    A result that came late counts only where nothing else was handed in. The statements are as many for two results as
    for two hundred.
    """
    came = {
        (one.org_id, one.request_id, UUID(cargo.id)): one.is_late
        for one in results
        if isinstance(cargo := parse_cargo(one.cargo), Cargo) and _is_version(cargo)
    }
    if not came:
        return
    columns = [list(column) for column in zip(*sorted(came), strict=True)]
    await connection.execute(_SQL.link_versions_if_unlinked, *columns)
    versions = await connection.fetch(_SQL.read_linked_versions, *columns)
    rows = await connection.fetch(_SQL.lock_requirements_of_results, *columns[:2])
    waiting = {row["id"]: requirement_from(row) for row in rows}
    asked = {(row["org_id"], row["result_of"], row["subject"], row["doc_type"]): row["id"] for row in rows}
    changes: list[RequirementChange] = []
    for version in versions:
        place = (version["org_id"], version["request_id"], version["subject"], version["document_type"])
        row = waiting.get(asked.get(place))
        if row is None or version["partition_id"] not in (None, row.partition_id):
            continue
        if came[version["org_id"], version["request_id"], version["id"]] and row.status in (
            "received",
            "in_qa",
        ):
            continue
        found = _arrive(row, version["document_id"], version["id"], now)
        changes += found
        waiting[row.id] = found[-1].after if found else row
    await write_requirements(connection, [ActorsChange(one, SYSTEM_ID) for one in changes], now)
