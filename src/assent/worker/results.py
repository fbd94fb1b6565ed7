"""Results: bundles from outside parties are folded into their requests, and requests whose time is over end."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from assent.jobs.dead_letters import log_dead
from assent.jobs.job import AttemptResult, Failed
from assent.jobs.queue import JobRow, settle_if_claimed
from assent.requests.deliveries import ClaimedDelivery, failure_of, load_deliveries, process_deliveries
from assent.requests.outside_requests import expire_requests
from assent.store.clock import transaction_time
from assent.store.database import Connection
from assent.worker.duty import RunResult, Schedule, WorkerContext, look_up_by_index
from assent.worker.jobs import JobDuty


class Results(JobDuty[ClaimedDelivery]):
    """Claims bundles, and folds a batch in one transaction.

    A batch that fails is done again bundle by bundle: the one that fails alone is retried later, and dead in the end;
    the others go on. A bundle that may have killed a worker is a batch of its own.
    """

    name = "results"
    kind = "result"

    def __init__(self, place: WorkerContext) -> None:
        options = place.options
        super().__init__(place)
        self.pace = Schedule(options.results_interval_ms / 1000, ("assent_results",))
        self._batch_max = options.results_batch_max
        self._suspects = False
        """Whether the next claim is one of a suspect."""

    async def run_once(self) -> RunResult:
        await self._jobs.keep(self._database)
        parts: Counter[str] = Counter()
        more = False
        if self._jobs.may_claim:
            batch, _ = await self._exchange([], self._batch_max)
            parts.update(await self._fold(batch))
            more = len(batch) == self._batch_max or not self._queue.has_gone_around or parts["kept"] > 0
            if self._queue.has_suspects:
                suspect = await self._claim_suspect()
                parts.update(await self._fold(suspect))
                more = more or bool(suspect)
        parts["expired"] += await self._expire()
        more = more or parts["expired"] == self._batch_max
        return RunResult(parts.total(), more=more, parts={name: n for name, n in parts.items() if n})

    async def finish(self) -> None:
        """Give back what is recorded as this worker's, and leave."""
        await self._jobs.compare(self._database)
        await self._jobs.lease.end(self._database)

    async def _claim_suspect(self) -> list[ClaimedDelivery]:
        self._suspects = True
        try:
            claimed, _ = await self._exchange([], 1)
        finally:
            self._suspects = False
        return claimed

    async def _choose(self, connection: Connection, room: int) -> list[JobRow]:
        if self._suspects:
            return await self._queue.claim_suspect(connection)
        return await self._queue.claim(connection, room)

    async def _load(self, connection: Connection, jobs: Sequence[JobRow]) -> list[ClaimedDelivery]:
        return await load_deliveries(connection, jobs)

    async def _settle(
        self, connection: Connection, results: Sequence[AttemptResult[ClaimedDelivery]]
    ) -> datetime | None:
        _, now = await settle_if_claimed(connection, self._jobs.worker_id, results)
        return now

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
            result = failure_of(delivery, error)
            await self._database.run(lambda connection: self._settle(connection, [result]), org_id=None)
            if result.status == "dead":
                code = result.outcome.code if isinstance(result.outcome, Failed) else None
                names = {"org_id": delivery.org_id, "id": delivery.id, "instance_id": None}
                log_dead("result", names, delivery.lane, code, result.error)
            return {result.status: 1}

    async def _expire(self) -> int:
        async def work(connection: Connection) -> int:
            await look_up_by_index(connection)
            return await expire_requests(connection, self._batch_max, await transaction_time(connection))

        return await self._database.run(work, org_id=None)
