"""The page for Prometheus: what this process counted, and how the queues stand, asked of the database now and then."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import asyncpg

from assent.operations.queues import count_incidents, look_at_queues
from assent.store.database import Database
from assent.store.errors import StoreError
from assent.telemetry import Metrics, hooks

_log = logging.getLogger(__name__)

QUEUES_EVERY_S: Final = 5.0
"""The database is asked no more often, however often the page is scraped."""
QUEUES_WITHIN_S: Final = 3.0


class MetricsPage:
    """One for each process; `assent.telemetry.configure.use_metrics` has been called before."""

    def __init__(self, database: Database, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock_s = clock_s
        self._looked_s: float | None = None
        self._looking = asyncio.Lock()

    async def render(self) -> tuple[bytes, str]:
        """Return the page and its content type; while the database does not respond, the page says so."""
        metrics = hooks.metrics
        if metrics is None:
            return b"", "text/plain"
        async with self._looking:
            if self._looked_s is None or self._clock_s() - self._looked_s >= QUEUES_EVERY_S:
                metrics.database(up=await self._look(metrics))
                self._looked_s = self._clock_s()
        used, idle = self._database.connections
        metrics.pool(used=used, idle=idle)
        return metrics.render()

    async def _look(self, metrics: Metrics) -> bool:
        try:
            async with (
                asyncio.timeout(QUEUES_WITHIN_S),
                self._database.transaction(None, read_only=True) as connection,
            ):
                queues = await look_at_queues(connection, self._database.clock.now())
                incidents = await count_incidents(connection)
        except (TimeoutError, OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            _log.warning("queues cannot be looked at", extra={"error": f"{type(error).__name__}: {error}"})
            return False
        for queue in queues:
            metrics.queue(
                queue.name,
                pending=queue.pending,
                delayed=queue.delayed,
                oldest_s=queue.oldest_s,
                dead=queue.dead,
                processing=queue.processing,
            )
        metrics.incidents({(each.code, each.definition): each.number for each in incidents})
        return True
