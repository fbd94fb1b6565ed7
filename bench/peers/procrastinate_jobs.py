"""Procrastinate: a job that does nothing, deferred one by one to a worker process that LISTEN wakes."""

import asyncio
import logging
import sys
from typing import Final

from procrastinate import App, PsycopgConnector

_LATENCIES_MS: Final = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(e.xmin) - pg_xact_commit_timestamp(d.xmin)) * 1000 AS ms
  FROM procrastinate_events d JOIN procrastinate_events e USING (job_id)
 WHERE d.type = 'deferred' AND e.type = 'succeeded' AND job_id = ANY (%(ids)s)"""


class ProcrastinateJobs:
    """A queue of its own, in this database."""

    def __init__(self, url: str) -> None:
        self.app = App(connector=PsycopgConnector(conninfo=url))
        self._nothing = self.app.task(name="nothing")(nothing)

    async def submit(self) -> int:
        """Return the id of a job whose row is committed."""
        return await self._nothing.defer_async()

    async def latencies_ms(self, ids: list[int]) -> list[float]:
        """Return for each job that has ended how long after its own commit its end was committed."""
        rows = await self.app.connector.execute_query_all_async(_LATENCIES_MS, ids=ids)
        return [float(row["ms"]) for row in rows]


async def nothing() -> None: ...


async def _work(url: str) -> None:
    logging.disable(logging.CRITICAL)
    jobs = ProcrastinateJobs(url)
    async with jobs.app.open_async():
        await jobs.app.run_worker_async(concurrency=20)


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1]))
