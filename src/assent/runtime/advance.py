"""advance: the one door for changes of instances. One batch, one transaction, whoever asks.

The locks of the batch's instances are held by the caller. Then: load everything, go in waves — every instance goes on
until it rests or wishes for something from outside, the receipts are taken in one statement, the wishes are fulfilled —
until every token rests, and write. Round trips per wave do not depend on how many instances there are.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from assent.engine.apply import next_visit
from assent.engine.nodes.base import Need
from assent.engine.visit import Visit
from assent.kernel.locked_rows import LockedRows
from assent.runtime.audit_entries import note_commands_of
from assent.runtime.batch import BatchItem, Execution
from assent.runtime.errors import StepFailed
from assent.runtime.kept_events import feed_kept_events
from assent.runtime.load import Loader
from assent.runtime.needs import NeedOfRun, NeedsFulfilment, fulfil_needs
from assent.runtime.receipts import receipt_of_visit, receipts_of_steps, take_receipts
from assent.runtime.watch import Perform, Watch
from assent.runtime.write import ignore_strays, write
from assent.store.database import Connection
from assent.telemetry import trace_id_of

JOBS_PER_TURN: Final = 50
"""How many instances go on before the loop's other tasks have a turn: ten steps of each take about 8 ms."""


@dataclass
class Advancing:
    """What advancing needs to know of the application."""

    means: NeedsFulfilment
    loader: Loader

    @property
    def operations(self) -> dict[str, Any]:
        return self.means.operations

    async def advance(  # noqa: PLR0913
        self,
        connection: Connection,
        works: Sequence[BatchItem],
        now: datetime,
        *,
        as_owner: bool,
        failing: dict[str, Exception] | None = None,
        watch: Watch | None = None,
    ) -> list[Execution]:
        """Let everything happen to the instances that their inputs ask for, and write it."""
        standing, held = await self.loader.read(connection, works), LockedRows()
        if watch is not None:
            watch.begin(works)
        jobs = await self.loader.load(connection, works, standing, now, failing=failing, held=held)
        if watch is not None:
            watch.loaded(jobs)
        perform = _perform if watch is None else watch.around(_perform)
        while True:
            wishes = await _perform_until_wishes(jobs, perform)
            if wishes:
                await _take_receipts_before(connection, wishes, now, as_owner=as_owner)
                await fulfil_needs(connection, self.means, wishes, held, now)
                if watch is not None:
                    watch.answered(wishes)
            elif not await feed_kept_events(connection, jobs, now):
                break
        _note_traces(jobs)
        await write(connection, jobs, now, as_owner=as_owner)
        await note_commands_of(connection, jobs, now)
        await ignore_strays(connection, works, jobs, now)
        return jobs


async def _perform_until_wishes(jobs: Sequence[Execution], perform: Perform) -> list[NeedOfRun]:
    """Let every instance go on until it rests or wishes for something, and return the wishes: one of each instance.

    Nothing leaves the process here: handlers are pure, and their steps exist in memory only.
    """
    wishes: list[NeedOfRun] = []
    for number, job in enumerate(jobs, 1):
        while (visit := next_visit(job.run)) is not None:
            if (wish := perform(job, visit)) is not None:
                wishes.append((job, visit, wish))
                break
        if number % JOBS_PER_TURN == 0:
            await asyncio.sleep(0)
    return wishes


async def _take_receipts_before(
    connection: Connection, wishes: Sequence[NeedOfRun], now: datetime, *, as_owner: bool
) -> None:
    """Take the receipts of steps that wish for something, and of those that led there (WF-14).

    A step that only computes has its receipt when the first thing reaches outside of the engine: a wish of its
    instance, or the batch's rows.
    """
    receipts = [receipt for job, _, _ in wishes for receipt in receipts_of_steps(job)]
    receipts += [receipt_of_visit(visit) for _, visit, _ in wishes]
    await take_receipts(connection, receipts, now, as_owner=as_owner)


def _note_traces(jobs: Sequence[Execution]) -> None:
    """Steps of a traced instance say in which trace they happened: the way from a record to its trace."""
    for job in jobs:
        if job.work.trace is not None:
            for step in job.run.steps:
                step.output["trace_id"] = trace_id_of(job.work.trace)


def _perform(job: Execution, visit: Visit) -> Need | None:
    try:
        return job.run.perform(visit)
    except Exception as error:
        raise StepFailed(visit.node.id, error) from error
