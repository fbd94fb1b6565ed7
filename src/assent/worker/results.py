"""Results: what outside parties have sent is folded into their requests, and requests whose time is over are ended."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from assent.evidence.ending import expire_requests
from assent.evidence.queue import Claimed, claim, claim_again, record_failure
from assent.evidence.taking_in import take_in
from assent.store.database import Connection
from assent.worker.duty import Done, Pace, Workplace
from assent.worker.plans import look_up_by_index

Claim = Callable[[Connection], Awaitable[list[Claimed]]]


class Results:
    """Takes bundles out of the queue, a batch in one transaction. A worker that dies over one leaves it as it was.

    A batch that fails is done again bundle by bundle: the one that fails alone is tried again later, and in the end
    given up; the others go on.
    """

    name = "results"

    def __init__(self, place: Workplace) -> None:
        options = place.options
        self.pace = Pace(options.results_interval_ms / 1000, ("assent_results",))
        self._database = place.database
        self._batch_max = options.results_batch_max

    async def run_once(self) -> Done:
        parts = Counter(await self._take_in_some())
        parts["expired"] += await self._expire()
        full = self._batch_max in (parts.total() - parts["expired"], parts["expired"])
        return Done(parts.total(), more=full, parts={name: n for name, n in parts.items() if n})

    async def _take_in_some(self) -> dict[str, int]:
        batch: list[Claimed] = []

        async def claimed(connection: Connection) -> list[Claimed]:
            batch[:] = await claim(connection, self._batch_max, self._database.clock.now())
            return batch

        try:
            return await self._take_in(claimed)
        except Exception:
            if not batch:
                raise
            return await self._one_by_one(tuple(batch))

    async def _take_in(self, claimed: Claim) -> dict[str, int]:
        async def work(connection: Connection) -> dict[str, int]:
            await look_up_by_index(connection)
            deliveries = await claimed(connection)
            if not deliveries:
                return {}
            return await take_in(connection, deliveries, self._database.clock.now())

        return await self._database.run(work, org_id=None)

    async def _one_by_one(self, batch: Sequence[Claimed]) -> Counter[str]:
        parts: Counter[str] = Counter()
        for delivery in batch:
            parts.update(await self._alone(delivery))
        return parts

    async def _alone(self, delivery: Claimed) -> dict[str, int]:
        try:
            return await self._take_in(lambda connection: claim_again(connection, delivery))
        except Exception as error:
            return {await self._settle(delivery, error): 1}

    async def _settle(self, delivery: Claimed, error: Exception) -> str:
        async def work(connection: Connection) -> str:
            return await record_failure(connection, delivery, error, self._database.clock.now())

        return await self._database.run(work, org_id=None)

    async def _expire(self) -> int:
        async def work(connection: Connection) -> int:
            await look_up_by_index(connection)
            return await expire_requests(connection, self._batch_max, self._database.clock.now())

        return await self._database.run(work, org_id=None)
