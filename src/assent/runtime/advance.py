"""advance: the one door for changes of instances. One batch, one transaction, whoever asks.

The locks of the batch's instances are held by the caller. Then: load everything, go in waves — the receipts of
every instance's next node in one statement, what comes back is performed, what it wishes for is fulfilled — until
every token rests, and write. Round trips per wave do not depend on how many instances there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from assent.engine.nodes.base import Wish
from assent.engine.visit import Visit
from assent.kernel.held import Held
from assent.runtime.errors import StepFailed
from assent.runtime.kept_events import feed_kept_events
from assent.runtime.load import Loader
from assent.runtime.noting import note_commands_of
from assent.runtime.receipts import Receipt, take_receipts
from assent.runtime.watch import Watch
from assent.runtime.wishes import Fulfilling, fulfil
from assent.runtime.work import Job, Work
from assent.runtime.write import ignore_strays, write
from assent.store.database import Connection
from assent.telemetry import trace_id_of


@dataclass
class Advancing:
    """What advancing needs to know of the application."""

    means: Fulfilling
    loader: Loader

    @property
    def operations(self) -> dict[str, Any]:
        return self.means.operations

    async def advance(  # noqa: PLR0913
        self,
        connection: Connection,
        works: Sequence[Work],
        now: datetime,
        *,
        as_owner: bool,
        failing: dict[str, Exception] | None = None,
        watch: Watch | None = None,
    ) -> list[Job]:
        """Let everything happen to the instances that their inputs ask for, and write it."""
        standing, held = await self.loader.read(connection, works), Held()
        if watch is not None:
            watch.begin(works)
        jobs = await self.loader.load(connection, works, standing, now, failing=failing, held=held)
        if watch is not None:
            watch.loaded(jobs)
        while True:
            visits = [(job, visit) for job in jobs if (visit := job.run.next_visit()) is not None]
            if visits:
                await self._wave(connection, visits, held, now, watch)
            elif not await feed_kept_events(connection, jobs, now):
                break
        _note_traces(jobs)
        await write(connection, jobs, now, as_owner=as_owner)
        await note_commands_of(connection, jobs, now)
        await ignore_strays(connection, works, jobs, now)
        return jobs

    async def _wave(
        self,
        connection: Connection,
        visits: Sequence[tuple[Job, Visit]],
        held: Held,
        now: datetime,
        watch: Watch | None,
    ) -> None:
        """Nothing is performed whose receipt was not taken in this transaction (WF-14)."""
        perform = _perform if watch is None else watch.around(_perform)
        await take_receipts(connection, [_receipt(visit) for _, visit in visits], now)
        wishes = [(job, visit, wish) for job, visit in visits if (wish := perform(job, visit)) is not None]
        if wishes:
            await fulfil(connection, self.means, wishes, held, now)
            if watch is not None:
                watch.answered(wishes)


def _receipt(visit: Visit) -> Receipt:
    return visit.instance.org_id, visit.instance.id, visit.key, visit.step_id, visit.node.id


def _note_traces(jobs: Sequence[Job]) -> None:
    """Steps of a traced instance say in which trace they happened: the way from a record to its trace."""
    for job in jobs:
        if job.work.trace is not None:
            for step in job.run.steps:
                step.output["trace_id"] = trace_id_of(job.work.trace)


def _perform(job: Job, visit: Visit) -> Wish | None:
    try:
        return job.run.perform(visit)
    except Exception as error:
        raise StepFailed(visit.node.id, error) from error
