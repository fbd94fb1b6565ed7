"""Deletes bytes that no version has: of uploads that came to nothing, and of versions that were erased.

It goes by rows alone, and never by what a store lists: a copy of a database that names the same bucket knows less than
the bucket holds, and would delete the files of the original.
"""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Final

from assent.documents.blobs import blob_key
from assent.documents.files import (
    BlobToDelete,
    abandon_lost_uploads,
    claim_deletions,
    settle_deletions,
)
from assent.model.problems import typed_error_text
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.worker.duty import RunResult, Schedule, WorkerContext

_log = logging.getLogger(__name__)

LEASE: Final = timedelta(minutes=10)
"""How long a worker that has died keeps others from deleting what it had taken."""
BACKOFF_MIN: Final = timedelta(seconds=30)
BACKOFF_MAX: Final = timedelta(hours=6)
AT_ONCE: Final = 8
DELETE_WITHIN_S: Final = 30.0


class BlobSweep:
    """Delete bytes, and try again until they are gone."""

    name = "blobs"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError("Files are in the store of a runtime; give the worker context one.")
        self.pace = Schedule(place.options.blobs_interval_ms / 1000)
        self._database = place.database
        self._batch_max = place.options.blobs_batch_max
        self._blobs = place.runtime.core.blobs

    async def run_once(self) -> RunResult:
        due, now = await self._database.run(self._claim, org_id=None)
        if not due:
            return RunResult()
        room = asyncio.Semaphore(AT_ONCE)
        errors = await asyncio.gather(*(self._delete(blob, room) for blob in due))
        pairs = list(zip(due, errors, strict=True))
        gone = [blob for blob, error in pairs if error is None]
        failed = [(blob, error, now + _pause(blob.deletions)) for blob, error in pairs if error is not None]
        await self._database.run(lambda connection: settle_deletions(connection, gone, failed), org_id=None)
        parts = {"deleted": len(gone), "failed": len(failed)}
        return RunResult(len(gone), more=len(due) == self._batch_max, parts=parts)

    async def _claim(self, connection: Connection) -> tuple[list[BlobToDelete], datetime]:
        after = timedelta(seconds=self._blobs.settings.blob_orphan_after_s)
        await abandon_lost_uploads(connection, after, self._batch_max)
        return await claim_deletions(connection, LEASE, self._batch_max), await transaction_time(connection)

    async def _delete(self, blob: BlobToDelete, room: asyncio.Semaphore) -> str | None:
        """Delete the bytes of a blob; return the error if the store does not."""
        try:
            async with room, asyncio.timeout(DELETE_WITHIN_S):
                await self._blobs.delete(blob_key(blob.org_id, blob.id))
        except Exception as error:
            said = {"org_id": blob.org_id, "blob": str(blob.id), "attempt": blob.deletions}
            _log.warning("a file could not be deleted", extra=said | {"error": type(error).__name__})
            return typed_error_text(error)
        return None


def _pause(deletions: int) -> timedelta:
    pause: timedelta = min(BACKOFF_MAX, BACKOFF_MIN * 2 ** min(deletions, 20))
    return pause
