"""Upkeep of the tables: make the partitions of months ahead, and delete or shrink what is not needed any more.

Nothing here touches an instance that has not ended. Dead letters, the keys of tasks, entities, versions, the audit
log, approval requests and decisions are kept for ever.
"""

from datetime import timedelta
from typing import Final

from assent.documents.documents import erase_old_versions
from assent.kernel.indexes import build_indexes
from assent.runtime.declared_names import forget_names, names_of, record_names
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.upkeep import ensure_partitions
from assent.worker.duty import RunResult, Schedule, WorkerContext, look_up_by_index

_SQL: Final = load_queries("assent.worker", "worker.sql")


class Names:
    """Says which operations, tasks, actions and services the application of this worker declares.

    Older workers leave these to newer ones, also for a while after the last of those has stopped.
    """

    name = "names"

    def __init__(self, place: WorkerContext) -> None:
        if place.runtime is None:
            raise ValueError("Names are those of an application; give the worker context its runtime.")
        self.pace = Schedule(place.options.names_interval_ms / 1000)
        self._database = place.database
        self._names = names_of(place.runtime.core)
        self._length = timedelta(milliseconds=place.options.newer_code_wait_ms)

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            written = await record_names(connection, self._names, self._length)
            await forget_names(connection)
        return RunResult(written)


class Partitions:
    """Makes the partitions of the months ahead, and moves rows that came for a month without a partition."""

    name = "partitions"

    def __init__(self, place: WorkerContext) -> None:
        self.pace = Schedule(place.options.partitions_interval_ms / 1000)
        self._database = place.database
        self._months_ahead = place.options.partitions_months_ahead

    async def run_once(self) -> RunResult:
        return RunResult(await ensure_partitions(self._database, self._months_ahead))


RATE_STARTS_DAYS: Final = 1
"""How long a start is kept that no rate limit counts any more."""


class Prune:
    """Deletes what is not needed any more, a batch of each kind in a transaction of its own.

    Receipts of instances that ended long ago, finished rows of both outboxes and finished tasks; events that no
    instance has waited for in a long time, and those that are too many under one key.
    """

    name = "prune"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.prune_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._after_days = options.prune_after_days
        self._instances_max = options.prune_instances_max
        self._rows_max = options.prune_rows_max
        self._kept_days = options.prune_kept_events_after_days
        self._kept_max = options.prune_kept_events_per_key_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            (receipts,) = await connection.fetch(_SQL.prune_receipts, self._after_days, self._instances_max)
        events = await self._prune(_SQL.prune_events, self._after_days)
        effects = await self._prune(_SQL.prune_effects, self._after_days)
        tasks = await self._prune(_SQL.prune_tasks, self._after_days)
        starts = await self._prune(_SQL.prune_rate_starts, RATE_STARTS_DAYS)
        kept = await self._prune(_SQL.prune_kept_events, self._kept_days)
        surplus = await self._prune(_SQL.prune_surplus_events, self._kept_max)
        parts = {
            "step_receipts": receipts["step_receipts"],
            "outbox_receipts": receipts["outbox_receipts"],
            "events": events,
            "effects": effects,
            "tasks": tasks,
            "kept_events": kept + surplus,
            "rate_starts": starts,
        }
        counts = (events, effects, tasks, kept, surplus, starts)
        full = receipts["instances"] == self._instances_max or self._rows_max in counts
        return RunResult(sum(parts.values()), more=full, parts=parts)

    async def _prune(self, sql: str, limit: int) -> int:
        async with self._database.transaction(None) as connection:
            await look_up_by_index(connection)
            count: int = await connection.fetchval(sql, limit, self._rows_max)
        return count


KEPT_KEYS: Final = (
    "n",
    "entered",
    "outcome",
    "chosen_edge_ids",
    "set",
    "status",
    "tokens",
    "entity_version",
    "command",
    "incident",
    "to",
    "again",
    "absorbed",
    "authority",
    "principal",
    "contributes",
    "contributors",
    "consumed",
    "on_behalf_of",
    "reason",
    "skipped_by",
    "amended_by",
)
"""What `assent.engine.evolve` reads of a step's output, which a test compares, and what people ask first: why."""


class Indexes:
    """Builds indexes of entities that a new version of a contract declares, some entities of a type at a time."""

    name = "indexes"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.indexes_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._entities_max = options.indexes_entities_max

    async def run_once(self) -> RunResult:
        done = await build_indexes(self._database, self._entities_max)
        return RunResult(done.indexed, more=done.more)


class Compact:
    """Shrinks the output of steps that ended long ago to what a rebuild of the instance needs.

    Goes through the steps of each org in the order of time, once, as they grow old enough. A step keeps for ever when
    and how it ended, which actor ended it, and which way the token went. How a condition was evaluated and what a call
    returned moves to `step_evidence`, where history finds it.
    """

    name = "compact"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.compact_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._after_months = options.compact_after_months
        self._steps_max = options.compact_steps_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            if not await connection.fetchval(_SQL.try_lock_compaction):
                return RunResult()
            await look_up_by_index(connection)
            (batch,) = await connection.fetch(
                _SQL.compact_steps, self._after_months, self._steps_max, list(KEPT_KEYS)
            )
        return RunResult(batch["compacted"], more=batch["examined"] > 0)


class Retention:
    """Deletes ended instances with their steps, receipts and outbox rows, ended tasks, and the content of documents.

    The policy is the settings `retention_days`, `task_retention_days` and `document_retention_days` of the org; without
    them everything stays, and tasks for as long as `prune` keeps them. The row of a version stays.
    """

    name = "retention"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.retention_interval_ms / 1000, pause_s=options.sweep_pause_ms / 1000)
        self._database = place.database
        self._instances_max = options.retention_instances_max
        self._rows_max = options.prune_rows_max

    async def run_once(self) -> RunResult:
        async with self._database.transaction(None) as connection:
            (deleted,) = await connection.fetch(_SQL.delete_ended_instances, self._instances_max)
        async with self._database.transaction(None) as connection:
            tasks: int = await connection.fetchval(_SQL.delete_ended_tasks, self._rows_max)
        versions = await self._database.run(self._erase, org_id=None)
        full = deleted["instances"] == self._instances_max or self._rows_max in (tasks, versions)
        parts = {**deleted, "tasks": tasks, "versions": versions}
        return RunResult(deleted["instances"] + tasks + versions, more=full, parts=parts)

    async def _erase(self, connection: Connection) -> int:
        return await erase_old_versions(connection, self._rows_max, await transaction_time(connection))
