"""An application whose workers do the least with events that a worker does, and can be held up by a test.

It claims events, completes them in the same transaction, and before it commits passes a lock that a test may hold:
`app` is for `assent worker --app tests.worker.application:app`.
"""

from collections.abc import Sequence

from assent.app import App
from assent.model.ids import InstanceKey
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.options import Options

GATE = 4_242
"""The advisory lock that every batch passes before it commits."""

HOLD_GATE = f"SELECT pg_advisory_xact_lock({GATE})"

_COMPLETE = """
WITH open AS (
  SELECT org_id, created_at, id FROM assent.workflow_events_outbox
   WHERE status IN ('pending', 'failed') AND retry_at IS NULL
   ORDER BY created_at, id LIMIT $1 FOR UPDATE SKIP LOCKED)
UPDATE assent.workflow_events_outbox e
   SET status = 'completed', completed_at = assent.now(), attempts = attempts + 1
  FROM open o WHERE e.org_id = o.org_id AND e.created_at = o.created_at AND e.id = o.id
RETURNING e.id
"""


class CompletingProcessor(EventProcessor):
    """Completes events; each is counted in its attempts, so that twice would show."""

    async def process_events(self, limit: int = 200) -> int:
        async with self.database.transaction(None) as connection:
            done = await connection.fetch(_COMPLETE, limit)
            if done:
                await connection.execute(f"SELECT pg_advisory_xact_lock_shared({GATE})")
        return len(done)

    async def process_named(self, places: Sequence[InstanceKey]) -> int:
        return await self.process_events()

    async def recover_batches(self, limit: int = 100) -> int:
        return 0


class CompletingApp(App):
    def event_processor(self, runtime: Runtime) -> EventProcessor:
        return CompletingProcessor(runtime.core)


app = CompletingApp()


PATIENT = Options(events_interval_ms=86_400_000, timers_interval_ms=86_400_000, events_lanes=1)
"""Nothing happens by polling."""


def completing_context(database: Database, options: Options) -> WorkerContext:
    """Return a worker context whose events are completed and nothing else."""
    runtime = app.runtime(database)
    return WorkerContext(database, options, runtime, events=app.event_processor(runtime))


not_an_app = object()
