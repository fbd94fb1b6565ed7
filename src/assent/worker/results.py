"""Results: what outside parties have sent is folded into their requests, and requests whose time is over are ended."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from assent.model.jobs import JobKey
from assent.requests.close import expire_requests
from assent.requests.deliveries import process_deliveries
from assent.requests.queue import ClaimedDelivery, claim, claim_suspect, give_back_unknown, record_failure
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.worker.duty import RunResult, Schedule, WorkerContext
from assent.worker.plans import look_up_by_index

Claim = Callable[[Connection], Awaitable[list[ClaimedDelivery]]]


class Results:
    """Claims bundles of the queue, and folds a batch in one transaction.

    A batch that fails is done again bundle by bundle: the one that fails alone is tried again later, and in the end
    given up; the others go on. A bundle that may have killed a worker is a batch of its own.
    """

    name = "results"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        self.pace = Schedule(options.results_interval_ms / 1000, ("assent_results",))
        self._database = place.database
        self._batch_max = options.results_batch_max
        self._jobs = place.lease.jobs(self._compare, timedelta(milliseconds=options.lease_ms))

    async def run_once(self) -> RunResult:
        await self._jobs.keep(self._database)
        parts: Counter[str] = Counter()
        more = False
        if self._jobs.may_claim:
            worker_id = self._jobs.worker_id
            batch = await self._claim(lambda connection: claim(connection, worker_id, self._batch_max))
            parts.update(await self._fold(batch))
            suspect = await self._claim(lambda connection: claim_suspect(connection, worker_id))
            parts.update(await self._fold(suspect))
            more = len(batch) == self._batch_max or bool(suspect)
        parts["expired"] += await self._expire()
        more = more or parts["expired"] == self._batch_max
        return RunResult(parts.total(), more=more, parts={name: n for name, n in parts.items() if n})

    async def finish(self) -> None:
        """Give back what is recorded as this worker's, and leave."""
        await self._jobs.compare(self._database)
        await self._jobs.lease.end(self._database)

    async def _claim(self, claimed: Claim) -> list[ClaimedDelivery]:
        async def work(connection: Connection) -> list[ClaimedDelivery]:
            await look_up_by_index(connection)
            found = await claimed(connection)
            if found:
                await self._jobs.cover(connection)
            return found

        async with self._jobs.claiming():
            batch = await self._database.run(work, org_id=None)
            for delivery in batch:
                self._jobs.begin(delivery.job)
        return batch

    async def _compare(self, connection: Connection, known: frozenset[JobKey]) -> None:
        await give_back_unknown(connection, self._jobs.worker_id, known)

    async def _fold(self, batch: Sequence[ClaimedDelivery]) -> dict[str, int]:
        """Fold a batch; what could be neither folded nor recorded as failed is given back by the next run."""
        try:
            return await self._fold_or_split(batch) if batch else {}
        except BaseException:
            self._jobs.doubt()
            raise
        finally:
            self._jobs.end(delivery.job for delivery in batch)

    async def _fold_or_split(self, batch: Sequence[ClaimedDelivery]) -> dict[str, int]:
        try:
            return await self._take_in(batch)
        except Exception:
            return await self._one_by_one(batch)

    async def _take_in(self, batch: Sequence[ClaimedDelivery]) -> dict[str, int]:
        async def work(connection: Connection) -> dict[str, int]:
            await look_up_by_index(connection)
            return await process_deliveries(connection, self._jobs.worker_id, batch)

        return await self._database.run(work, org_id=None)

    async def _one_by_one(self, batch: Sequence[ClaimedDelivery]) -> Counter[str]:
        parts: Counter[str] = Counter()
        for delivery in batch:
            parts.update(await self._alone(delivery))
        return parts

    async def _alone(self, delivery: ClaimedDelivery) -> dict[str, int]:
        try:
            return await self._take_in([delivery])
        except Exception as error:
            return {await self._settle(delivery, error): 1}

    async def _settle(self, delivery: ClaimedDelivery, error: Exception) -> str:
        async def work(connection: Connection) -> str:
            return await record_failure(connection, self._jobs.worker_id, delivery, error)

        return await self._database.run(work, org_id=None)

    async def _expire(self) -> int:
        async def work(connection: Connection) -> int:
            await look_up_by_index(connection)
            return await expire_requests(connection, self._batch_max, await transaction_time(connection))

        return await self._database.run(work, org_id=None)
