"""Dead letters: jobs without attempts left, listed and retried by people; and the jobs that are still open."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from assent.jobs.job import JobKind
from assent.model.mutation import Refused, Rejection
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_log = logging.getLogger(__name__)
_SQL: Final = load_queries("assent.jobs", "jobs.sql")


def log_dead(kind: str, job: Row, what: str, code: str | None, error: str | None) -> None:
    """Write one line about a job or an event that is dead; call it after the commit."""
    instance_id = job["instance_id"]
    fields = {
        "org_id": job["org_id"],
        "job_id": str(job["id"]),
        "kind": kind,
        "what": what,
        "code": code,
        "error": error,
        "instance_id": str(instance_id) if instance_id is not None else None,
    }
    _log.warning("job is dead", extra=fields)


async def list_open(
    connection: Connection, org_id: str, kind: JobKind, limit: int, partition_id: str | None = None
) -> list[Mapping[str, Any]]:
    """Return the jobs of a kind that have not ended, the oldest first; of one partition, where one is named."""
    rows = await connection.fetch(_SQL.list_open_jobs, kind, org_id, limit, partition_id)
    return [dict(row) for row in rows]


async def revive(
    connection: Connection, org_id: str, job_id: UUID, kind: JobKind | None = None
) -> JobKind | None:
    """Return a dead job to the queue; return its kind, or None where there is no such dead job.

    Raises `Refused` where a step waited for it: that step has failed, and is retried instead.
    """
    row = await connection.fetchrow(_SQL.find_dead_job, org_id, job_id, kind)
    if row is None:
        return None
    found: JobKind = row["kind"]
    if row["awaited"]:
        raise Refused(awaited_rejection(found, job_id))
    await connection.execute(_SQL.revive_jobs, org_id, found, job_id, None, None)
    return found


def awaited_rejection(kind: str, job_id: UUID) -> Rejection:
    """Return why a dead job that a step awaited is not retried by itself."""
    message = f"no step waits for {kind} {job_id} any more: its step has failed"
    hint = "retry its instance, or discard it"
    return Rejection(f"{kind.upper()}_WAS_AWAITED", message, (f"{kind}_id",), hint=hint)


async def revive_all(
    connection: Connection,
    org_id: str,
    kind: JobKind,
    lane: str | None = None,
    partition_id: str | None = None,
) -> int:
    """Return every dead job of a kind, or of one of its lanes or a partition, to the queue; return how many there were.

    Those that a step waited for stay: their steps are retried instead.
    """
    revived: int = await connection.fetchval(_SQL.revive_jobs, org_id, kind, None, lane, partition_id)
    return revived


async def discard(connection: Connection, org_id: str, job_id: UUID) -> JobKind | None:
    """Mark a dead job as resolved; return its kind, or None where there is no such dead job."""
    kind: JobKind | None = await connection.fetchval(_SQL.discard_job_if_dead, org_id, job_id)
    return kind


async def resolve_of_instances(connection: Connection, instances: Sequence[tuple[str, UUID]]) -> None:
    """Mark dead jobs as resolved that steps of these instances awaited: the instances have gone on without them."""
    if instances:
        await put(connection, _SQL.resolve_awaited_jobs, *map(list, zip(*instances, strict=True)))
