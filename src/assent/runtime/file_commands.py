"""Files in and out: bytes go to the store and come from it outside of any transaction.

check_upload → receive_file: row, bytes → hand_in: version and file, in one transaction
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, TypeAlias
from uuid import UUID

from assent.documents.blobs import READ_BYTES, Blobs, blob_key
from assent.documents.files import (
    BlobToDelete,
    Intake,
    KeptFile,
    NewFile,
    ReceivedFile,
    abandon_blob_if_uploading,
    begin_blob,
    clean_name,
    disposition,
    find_file_of_blob,
    require_extra,
    served_name,
    served_type,
    settle_deletions,
    type_of,
)
from assent.effects.file_links import DOWNLOAD, DOWNLOADS, read_claims, require_link, sign_link
from assent.model.mutation import Refused, Rejection
from assent.people.orgs import FILE_BYTES_SETTING, read_org
from assent.runtime.core import Core, OrgScope
from assent.store.database import Connection
from assent.store.errors import OutcomeUnknown

_log = logging.getLogger(__name__)

Content: TypeAlias = bytes | Path | BinaryIO | AsyncIterable[bytes] | Iterable[bytes]
"""What a file is read from; whatever it is, no more than a few parts of it are in memory."""


async def parts_of(content: Content) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a file; a file of the disk is read in a thread."""
    if isinstance(content, bytes | bytearray | memoryview):
        yield bytes(content)
    elif isinstance(content, Path):
        with await asyncio.to_thread(content.open, "rb") as opened:
            async for part in parts_of(opened):
                yield part
    elif isinstance(content, AsyncIterable):
        async for part in content:
            yield part
    elif (read := getattr(content, "read", None)) is not None:
        while part := await asyncio.to_thread(read, READ_BYTES):
            yield part
    else:
        for part in content:
            yield part


async def bytes_max_of(connection: Connection, org_id: str, blobs: Blobs) -> int:
    """Return the size that a file of an org may have: the server's limit, or a lower one of the org."""
    own = (await read_org(connection, org_id)).settings.get(FILE_BYTES_SETTING)
    most = blobs.settings.blob_bytes_max
    return min(own, most) if isinstance(own, int) else most


@asynccontextmanager
async def receive_file(
    scope: OrgScope, content: Content, new: NewFile, bytes_max: int
) -> AsyncIterator[ReceivedFile]:
    """Store the bytes of a file and return it, for a version to be added inside the block.

    After the block, whatever happened in it, the database says whether a version has the file; if none has, its bytes
    are deleted, now or by a worker.
    """
    database, org_id, blob_id = scope.database, scope.org_id, scope.new_id()
    if database.is_joined:
        raise ValueError(
            "Expected no transaction around an upload, found one; hand the file in outside of it."
        )
    require_extra()
    by = scope.actor_or_system.id
    try:
        await database.run(lambda connection: begin_blob(connection, org_id, blob_id, by), org_id=org_id)
    except OutcomeUnknown as unknown:
        # A row without a file is all that this can have left: the command itself has not begun.
        message = "the database was lost before the file was taken in; nothing was handed in"
        raise Refused(Rejection("UNAVAILABLE", message, hint="upload it again")) from unknown
    try:
        yield await _store(scope.core.blobs, blob_key(org_id, blob_id), blob_id, content, new, bytes_max)
    finally:
        await _abandon(scope, blob_id)


async def _store(  # noqa: PLR0913, PLR0917
    blobs: Blobs, key: str, blob_id: UUID, content: Content, new: NewFile, bytes_max: int
) -> ReceivedFile:
    taken, name = Intake(bytes_max), clean_name(new.file_name)
    try:
        async with (
            asyncio.timeout(blobs.settings.blob_upload_s_max) as limit,
            aclosing(parts_of(content)) as parts,
        ):
            first = await taken.begin(parts)
            found = type_of(taken.head)
            said = {"content_type": served_type(found), "disposition": disposition(name, found)}
            await blobs.store(key, taken.rest(first, parts), **said)
    except TimeoutError:
        if not limit.expired():
            raise
        message = f"the upload took longer than {blobs.settings.blob_upload_s_max} s"
        raise Refused(Rejection("UPLOAD_ABANDONED", message, hint="upload it again")) from None
    return ReceivedFile(blob_id, name, new.content_type, found, taken.size, taken.sha256)


async def _abandon(scope: OrgScope, blob_id: UUID) -> None:
    """Delete what came, unless a version has it; a worker deletes what cannot be deleted now."""
    database, org_id = scope.database, scope.org_id
    try:
        if not await database.run(
            lambda connection: abandon_blob_if_uploading(connection, org_id, blob_id), org_id=org_id
        ):
            return
        await scope.core.blobs.delete(blob_key(org_id, blob_id))
        gone = [BlobToDelete(org_id, blob_id, 1)]
        await database.run(lambda connection: settle_deletions(connection, gone, []), org_id=org_id)
    except Exception as error:
        _log.warning(
            "an upload is left to be swept", extra={"blob": str(blob_id), "error": repr(error)[:200]}
        )


class OpenedFile:
    """A file that is read: `async for part in file`, or `await file.read()` for a small one."""

    def __init__(self, blobs: Blobs, kept: KeptFile, start: int = 0, end: int | None = None) -> None:
        self._blobs = blobs
        self._kept = kept
        self._start, self._end = start, kept.size_bytes if end is None else min(end, kept.size_bytes)

    @property
    def name(self) -> str:
        """Return the name with which it is saved: its ending is that of its type."""
        return served_name(self._kept.file_name, self._kept.found_type)

    @property
    def content_type(self) -> str:
        """Return the type with which it is served."""
        return served_type(self._kept.found_type)

    @property
    def disposition(self) -> str:
        return disposition(self._kept.file_name, self._kept.found_type)

    @property
    def size_bytes(self) -> int:
        return self._kept.size_bytes

    @property
    def sha256(self) -> str:
        return self._kept.sha256

    def part(self, start: int, end: int) -> "OpenedFile":
        """Return the bytes from `start` up to, and without, `end`."""
        return OpenedFile(self._blobs, self._kept, start, end)

    async def begin(self) -> AsyncIterator[bytes]:
        """Return the bytes as they come out of the store; raise `Refused` before the first if they cannot be had."""
        key = blob_key(self._kept.org_id, self._kept.blob_id)
        whole = self._start == 0 and self._end == self.size_bytes
        return await self._blobs.fetch(key, *(() if whole else (self._start, self._end)))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in await self.begin():
            yield part

    async def read(self) -> bytes:
        """Return all bytes at once."""
        return b"".join([part async for part in self])

    async def save(self, path: Path) -> None:
        """Write the file to a path that is not there yet; nothing is left of one that could not be read whole."""
        with await asyncio.to_thread(path.open, "xb") as target:
            try:
                async for part in self:
                    await asyncio.to_thread(target.write, part)
            except BaseException:
                await asyncio.to_thread(path.unlink, missing_ok=True)
                raise


@dataclass(frozen=True, slots=True)
class FileLink:
    """A link to a file, for some time."""

    url: str
    expires_at: datetime


async def link_to(blobs: Blobs, kept: KeptFile, now: datetime, base_url: str | None = None) -> FileLink:
    """Return a link to a file: of the bucket where its store signs links, else of this server."""
    settings = blobs.settings
    holds = timedelta(seconds=settings.blob_link_s)
    if settings.blob_presign == "on" and blobs.signs:
        url = await blobs.presigned_url(blob_key(kept.org_id, kept.blob_id), holds)
        if url is not None:
            return FileLink(url, now + holds)
    base = settings.public_url or base_url
    if not base:
        message = "a link to this server takes its address"
        raise Refused(Rejection("NO_PUBLIC_URL", message, hint="set ASSENT_PUBLIC_URL"))
    token = sign_link(DOWNLOAD, kept.org_id, kept.blob_id, kept.link_key, now + holds)
    return FileLink(f"{base.rstrip('/')}{DOWNLOADS}{token}", now + holds)


async def open_by_link(core: Core, token: str) -> OpenedFile:
    """Return the file that a link of this server leads to; raise `Refused`."""
    claims = read_claims(DOWNLOAD, token)
    async with core.database.transaction(claims.org_id, read_only=True) as connection:
        kept = await find_file_of_blob(connection, claims.org_id, claims.id)
    key = kept.link_key if kept is not None else None
    require_link(DOWNLOAD, token, claims, key, core.database.clock.now())
    assert kept is not None
    return OpenedFile(core.blobs, kept)
