"""Files: what came, judged by its bytes, and the row of a blob from before its first byte until its bytes are gone.

    begin_blob (committed) → store the bytes → keep_blob_if_uploading with the new version (one transaction)

A crash at any point leaves a row in status `uploading`, by which a duty finds and deletes what was written. No
transaction is open while bytes flow.
"""

import hashlib
import re
import secrets
import unicodedata
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from assent.documents.blobs import NOT_THERE
from assent.model.document import BlobStatus
from assent.model.mutation import Entity, Refused, Rejection
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import from_row

_SQL: Final = load_queries("assent.documents", "files.sql")

NAME_CHARACTERS_MAX: Final = 150
ENDING_CHARACTERS_MAX: Final = 12
HEAD_BYTES: Final = 8_192
"""As much as is looked at to find the type."""
OCTETS: Final = "application/octet-stream"

ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "application/pdf": (".pdf",),
    "image/jpeg": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "image/png": (".png",),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
    "image/tiff": (".tif", ".tiff"),
    "image/heif": (".heic", ".heif"),
    "text/plain": (".txt", ".csv", ".md", ".log", ".json"),
}
"""The types that are served as what they are, with the endings of their names. No browser executes any of them."""

ACTIVE_ENDINGS: Final = frozenset(
    [
        ".app",
        ".apk",
        ".bat",
        ".bin",
        ".chm",
        ".cmd",
        ".com",
        ".cpl",
        ".dll",
        ".exe",
        ".hta",
        ".htm",
        ".html",
        ".htc",
        ".iso",
        ".jar",
        ".js",
        ".jse",
        ".lnk",
        ".mht",
        ".mhtml",
        ".mjs",
        ".msc",
        ".msi",
        ".pif",
        ".php",
        ".ps1",
        ".py",
        ".reg",
        ".scr",
        ".sh",
        ".shtml",
        ".svg",
        ".svgz",
        ".swf",
        ".url",
        ".vb",
        ".vbe",
        ".vbs",
        ".wsf",
        ".xht",
        ".xhtml",
        ".xml",
        ".xsl",
        ".xslt",
    ]
)
"""Endings at which a desktop runs a file, or opens it in a browser."""

_MARKUP: Final = re.compile(
    rb"<\s*(!doctype\s+html|html|head|body|script|iframe|svg|[a-z]+:svg)\b", re.IGNORECASE
)
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def clean_name(name: str | None) -> str | None:
    """Return the name of a file as it is kept: one part, with nothing that a system or a screen takes for a command."""
    if name is None:
        return None
    text = unicodedata.normalize("NFC", name).replace("\\", "/").rsplit("/", 1)[-1]
    # Controls, marks of direction, lines, private characters and halves of characters.
    text = "".join(
        one for one in text if unicodedata.category(one) not in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
    )
    text = re.sub(r'[<>:"|?*%]', "_", re.sub(r"\s+", " ", text)).strip(" .")
    if _RESERVED.match(text):
        text = f"_{text}"
    ending = PurePosixPath(text).suffix if len(PurePosixPath(text).suffix) <= ENDING_CHARACTERS_MAX else ""
    stem = text.removesuffix(ending) if ending else text
    return f"{stem[: NAME_CHARACTERS_MAX - len(ending)].rstrip(' .')}{ending}" or None


def require_extra() -> None:
    """Raise `Refused` where a part of the extra `files` is not installed."""
    if not all(_is_installed(package) for package in ("obstore", "puremagic")):
        raise Refused(Rejection("BLOBS_UNAVAILABLE", NOT_THERE))


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # it was put out of reach
        return False


def type_of(head: bytes) -> str:
    """Return the type that the first bytes of a file have, whatever its name and its sender say."""
    import puremagic  # noqa: PLC0415  a part of the extra `files`

    text = _text_of(head)
    if text is not None and (markup := _MARKUP.search(text)) is not None:
        return "image/svg+xml" if b"svg" in markup[0].lower() else "text/html"
    try:
        found = [one.mime_type for one in puremagic.magic_string(head) if one.mime_type]
    except (puremagic.PureError, ValueError):
        found = []
    if found and (found[0] in ENDINGS or text is None):
        return str(found[0])[:200]
    return "text/plain" if text is not None else OCTETS


def _text_of(head: bytes) -> bytes | None:
    """Return bytes as UTF-8 if they are text in UTF-8 or UTF-16."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return head.decode("utf-16", "ignore").encode()
    if any(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head):
        return None
    try:
        head[: len(head) - 3 if len(head) == HEAD_BYTES else None].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        return None if error.start < len(head) - 8 else head
    return head


def served_type(found_type: str) -> str:
    """Return the type with which a file is served: its own if no browser executes it."""
    if found_type == "text/plain":
        return "text/plain; charset=utf-8"
    return found_type if found_type in ENDINGS else OCTETS


def served_name(name: str | None, found_type: str) -> str:
    """Return the name with which a file is saved: its ending is that of its type, and none that is run."""
    name = name or "document"
    ending = PurePosixPath(name).suffix.lower()
    of_type = ENDINGS.get(found_type)
    if of_type is not None:
        return name if ending in of_type else f"{name}{of_type[0]}"
    is_lie = any(ending in endings for endings in ENDINGS.values())
    return f"{name}.bin" if is_lie or ending in ACTIVE_ENDINGS else name


def disposition(name: str | None, found_type: str) -> str:
    """Return the header `Content-Disposition`: always an attachment."""
    served = served_name(name, found_type)
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", served)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(served, safe='')}"


@dataclass(frozen=True, slots=True)
class NewFile:
    """What a sender says of a file before its first byte."""

    file_name: str | None = None
    content_type: str = OCTETS


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file whose bytes are in the store, and that no version has yet."""

    blob_id: UUID
    file_name: str | None
    content_type: str
    """As its sender says."""
    found_type: str
    size_bytes: int
    sha256: str


@dataclass(slots=True)
class Intake:
    """Counts and hashes bytes on their way, and refuses what is too large while it comes."""

    bytes_max: int
    size: int = 0
    head: bytes = b""
    _hash: Any = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        found: str = self._hash.hexdigest()
        return found

    async def begin(self, parts: AsyncIterator[bytes]) -> list[bytes]:
        """Return the first parts, as many as it takes to find the type; raise `Refused` if there is not a byte."""
        first: list[bytes] = []
        while len(self.head) < HEAD_BYTES and (part := await anext(parts, None)) is not None:
            if part:
                self._count(part)
                first.append(part)
                self.head += part[: HEAD_BYTES - len(self.head)]
        if not self.size:
            raise Refused(Rejection("EMPTY_FILE", "the file has no bytes", ("content",)))
        return first

    async def rest(self, first: Sequence[bytes], parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        for part in first:
            yield part
        async for part in parts:
            self._count(part)
            if part:
                yield part

    def _count(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > self.bytes_max:
            message = f"a file may have {self.bytes_max:,} bytes"
            raise Refused(Rejection("FILE_TOO_LARGE", message, ("content",)))
        self._hash.update(part)


async def begin_blob(connection: Connection, org_id: str, blob_id: UUID, by: str) -> None:
    """Insert the row of a file that is about to come."""
    await connection.execute(_SQL.insert_blob, org_id, blob_id, secrets.token_hex(32), by)


async def keep_blob_if_uploading(
    connection: Connection, org_id: str, file: ReceivedFile, entity_id: UUID | None = None
) -> None:
    """Give a file whose bytes are in the store to a version, or to an entity; raise `Refused` if it was abandoned."""
    about = (file.file_name, file.found_type, file.size_bytes, file.sha256, entity_id)
    if await connection.execute(_SQL.keep_blob_if_uploading, org_id, file.blob_id, *about) != "UPDATE 1":
        message = "the upload took too long, and what came was deleted"
        raise Refused(Rejection("UPLOAD_ABANDONED", message, hint="upload it again"))


async def abandon_blob_if_uploading(connection: Connection, org_id: str, blob_id: UUID) -> bool:
    """Mark a file whose upload came to nothing for deletion; return false where a version has it."""
    return await connection.execute(_SQL.abandon_blob_if_uploading, org_id, blob_id) == "UPDATE 1"


async def erase_blob(connection: Connection, org_id: str, blob_id: UUID) -> bool:
    """Mark an erased file for deletion: its name is gone now, its bytes as soon as a worker is there."""
    return await connection.execute(_SQL.erase_blob_if_kept, org_id, blob_id) == "UPDATE 1"


async def erase_blobs(connection: Connection, blobs: Sequence[tuple[str, UUID]]) -> None:
    """Mark the files of erased versions for deletion, each by its org and id."""
    if blobs:
        org_ids, ids = zip(*sorted(blobs), strict=True)
        await connection.execute(_SQL.erase_blobs_if_kept, list(org_ids), list(ids))


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of a version or an entity, to be sent."""

    org_id: str
    blob_id: UUID
    file_name: str | None
    found_type: str
    size_bytes: int
    sha256: str
    link_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that was attached to an entity."""

    id: UUID
    status: BlobStatus
    file_name: str | None
    content_type: str
    """What its first bytes are."""
    size_bytes: int
    sha256: str
    attached_at: datetime
    attached_by: str
    link_key: str = field(repr=False)

    @property
    def is_erased(self) -> bool:
        return self.status != "kept"

    def file(self, org_id: str) -> KeptFile:
        """Return it as a file to be sent."""
        about = (self.file_name, self.content_type, self.size_bytes, self.sha256, self.link_key)
        return KeptFile(org_id, self.id, *about)


async def list_attachments(connection: Connection, org_id: str, ids: Iterable[str]) -> list[Attachment]:
    """Return the files with these ids, in the order in which they were attached."""
    rows = await connection.fetch(_SQL.list_attachments, org_id, [UUID(one) for one in ids])
    return [from_row(Attachment, row) for row in rows]


async def find_attachment(connection: Connection, entity: Entity, attachment_id: UUID) -> Attachment | None:
    """Return a file that an entity has or had, also one that came with the entity that it amends."""
    ids = [UUID(one) for one in entity.attachments]
    row = await connection.fetchrow(_SQL.find_attachment, entity.org_id, attachment_id, entity.id, ids)
    return from_row(Attachment, row) if row is not None else None


async def find_file(
    connection: Connection, org_id: str, document_id: UUID, version_id: UUID
) -> KeptFile | None:
    row = await connection.fetchrow(_SQL.find_file, org_id, document_id, version_id)
    return from_row(KeptFile, row) if row is not None else None


async def find_file_of_blob(connection: Connection, org_id: str, blob_id: UUID) -> KeptFile | None:
    row = await connection.fetchrow(_SQL.find_file_of_blob, org_id, blob_id)
    return from_row(KeptFile, row) if row is not None else None


@dataclass(frozen=True, slots=True)
class BlobToDelete:
    """A blob whose bytes are to be deleted now."""

    org_id: str
    id: UUID
    deletions: int
    """Which attempt this is, from 1."""


async def abandon_lost_uploads(connection: Connection, after: timedelta, limit: int) -> int:
    """Mark uploads for deletion that no process can be at work on any more; return how many."""
    rows = await connection.fetch(_SQL.abandon_lost_uploads, after, limit)
    return len(rows)


async def claim_deletions(connection: Connection, lease: timedelta, limit: int) -> list[BlobToDelete]:
    """Return blobs that are due, each for one worker until the lease is over."""
    rows = await connection.fetch(_SQL.claim_deletions, lease, limit)
    return [from_row(BlobToDelete, row) for row in rows]


async def settle_deletions(
    connection: Connection, gone: Sequence[BlobToDelete], failed: Sequence[tuple[BlobToDelete, str, datetime]]
) -> None:
    """Write which bytes are gone, and when the others are tried again.

    The row of a blob stays where a version had it, and is deleted where none did.
    """
    if gone:
        columns = [one.org_id for one in gone], [one.id for one in gone]
        await connection.execute(_SQL.forget_blobs_without_version, *columns)
        await connection.execute(_SQL.mark_blobs_deleted, *columns)
    if failed:
        ids = [one.org_id for one, _, _ in failed], [one.id for one, _, _ in failed]
        why = [error[:500] for _, error, _ in failed], [at for _, _, at in failed]
        await connection.execute(_SQL.postpone_deletions, *ids, *why)
