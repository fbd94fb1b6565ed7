"""The task that reads the file of a version: a background task on the one queue, submitted with the version."""

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID

from assent.documents.documents import Review, VersionItem, lock_version, write_review
from assent.documents.extraction import (
    EVERY_TYPE,
    Extraction,
    Extractor,
    FileToRead,
    find_version,
    write_extraction_if_open,
)
from assent.documents.files import KeptFile, find_file
from assent.documents.requirements import find_rejection_code
from assent.model.actor import SYSTEM
from assent.model.job import TASK_ATTEMPTS_MAX
from assent.runtime.core import CommandTransaction, Core, OrgScope
from assent.runtime.file_commands import OpenedFile
from assent.store.commit import CommitProof
from assent.store.connection import Connection
from assent.tasks.context import TaskContext
from assent.tasks.errors import GiveUp
from assent.tasks.submit import Submission, submit_tasks
from assent.tasks.task_type import TaskType, declare

EXTRACT: Final = "documents.extract"
"""The task's type."""
REASON: Final = "read by machine"


def extractor_of(extractors: Mapping[str, Extractor], document_type: str) -> Extractor | None:
    return extractors.get(document_type) or extractors.get(EVERY_TYPE)


async def submit_extraction(  # noqa: PLR0913, PLR0917
    connection: Connection,
    core: Core,
    version: VersionItem,
    document_type: str,
    partition_id: str | None,
    org_id: str,
) -> None:
    """Have the file of a version read, if the application has an extractor for it."""
    if version.blob_id is None or extractor_of(core.extractors, document_type) is None:
        return
    about = {"document_id": str(version.document_id), "version_id": str(version.id)}
    wanted = Submission(
        org_id=org_id, type=EXTRACT, input=about, key=str(version.id), partition_id=partition_id
    )
    await submit_tasks(connection, [wanted], core.database.clock.now())


def extraction_task(core: Core) -> TaskType:
    """Return the type of the task that reads files with the extractors of an application."""

    async def extract(task: TaskContext, document_id: UUID, version_id: UUID) -> dict[str, Any]:
        async with core.database.transaction(task.org_id, read_only=True) as connection:
            found = await find_version(connection, task.org_id, document_id, version_id)
            kept = await find_file(connection, task.org_id, document_id, version_id)
        if (
            found is None
            or kept is None
            or found[0].extracted_at is not None
            or found[0].verified_by is not None
        ):
            return {"outcome": "skipped"}
        version, document_type, subject = found
        extractor = extractor_of(core.extractors, document_type)
        if extractor is None:
            return {"outcome": "skipped"}
        read = await _read(core, kept, extractor, document_type, subject)
        async with task.transaction() as connection:
            return await _write(core, connection, task.org_id, version, extractor, read)

    # An extractor has its own time; this is for one that takes every minute of it to fetch its file.
    longest = max((one.timeout for one in core.extractors.values()), default=timedelta())
    limit = longest + timedelta(minutes=30)
    return declare(EXTRACT, extract, attempts_max=TASK_ATTEMPTS_MAX, timeout=limit)


async def _read(
    core: Core, kept: KeptFile, extractor: Extractor, document_type: str, subject: str
) -> Extraction:
    opened = OpenedFile(core.blobs, kept)
    async with _folder() as folder:
        path = folder / f"file{Path(opened.name).suffix.lower()[:12]}"
        await opened.save(path)
        given = FileToRead(path, document_type, subject, opened.name, kept.found_type, kept.size_bytes)
        async with asyncio.timeout(extractor.timeout.total_seconds()):
            if inspect.iscoroutinefunction(extractor.run):
                found = await extractor.run(given)
            else:
                found = await asyncio.to_thread(extractor.run, given)
    if not isinstance(found, Extraction):
        raise GiveUp(f"an extractor returns an Extraction, found {type(found).__name__}")
    try:
        found.to_columns()
    except ValueError as error:
        raise GiveUp(str(error)) from error
    return found


@asynccontextmanager
async def _folder() -> Any:
    folder = await asyncio.to_thread(TemporaryDirectory, prefix="assent-")
    try:
        yield Path(folder.name)
    finally:
        await asyncio.to_thread(folder.cleanup)


async def _write(  # noqa: PLR0913, PLR0917
    core: Core,
    connection: Connection,
    org_id: str,
    version: VersionItem,
    extractor: Extractor,
    found: Extraction,
) -> dict[str, Any]:
    now = core.database.clock.now()
    locked = await lock_version(connection, org_id, version.document_id, version.id)
    if locked is None or not await write_extraction_if_open(connection, org_id, version, found, now):
        return {"outcome": "skipped"}
    code = extractor.rejection_of(found)
    if code is None:
        return {"outcome": "read"}
    rejection = await find_rejection_code(connection, org_id, code)
    if rejection is None:
        raise GiveUp(f"there is no rejection code {code}")
    await write_review(connection, org_id, locked.version, Review(rejection, REASON), SYSTEM, now)
    transaction = CommandTransaction(connection, OrgScope(core, org_id), CommitProof())
    details = {"version": str(version.id), "code": code}
    await transaction.note("document", "document.reject", str(version.document_id), details=details)
    return {"outcome": "rejected", "code": code}
