"""Nets under the locks: what holds when a lock fails to, and in which order locks and notes come."""

import asyncio
from typing import Any

import asyncpg
import pytest

from assent.app import App
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from tests.authored import END, arrows, call, form, script
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.world import ANN, ORG, publish_steps, rows

ADVISORY_LOCKS = """
SELECT count(*) FROM pg_locks
 WHERE locktype = 'advisory' AND granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_an_instance_that_moved_on_is_not_overwritten(app: App, database: Database) -> None:
    """WF-01: nobody else can write while the lock is held. If somebody did, their version counts."""

    @app.operation("tests.meddle")
    async def meddle(connection: Any, arguments: Any) -> None:
        await connection.execute(
            "UPDATE assent.workflow_instances SET version = version + 1 WHERE org_id = $1", ORG
        )

    runtime = app.runtime(database)
    steps = [form("ask"), call("meddle", "tests.meddle"), END]
    ways = [{"from": "ask", "event": "done", "to": "meddle"}, *arrows("meddle", "end")]
    await publish_steps(database, "orders", steps, ways)
    view = await runtime.org(ORG, ANN).instances.start("orders")
    with pytest.raises(asyncpg.SerializationError, match="moved on although its lock was held"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done")
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["status"], instance["current_nodes"]) == ("running", ["ask"])


async def test_a_batch_is_noted_only_when_its_lock_is_held(runtime: Runtime, database: Database) -> None:
    """Whoever sees a note whose lock is free takes its worker for dead."""
    await publish_steps(database, "orders", [script("go"), END], arrows("go", "end"))
    await runtime.org(ORG, ANN).instances.start_many("orders", [{}])
    async with database.transaction(None) as observer:
        # Notes can be read, and not written.
        await observer.execute("LOCK TABLE assent.workflow_batches IN SHARE MODE")
        working = asyncio.create_task(EventProcessor(runtime.core).process_events(1))
        await wait_until_a_connection_is_blocked(observer)
        held = await observer.fetchval(ADVISORY_LOCKS)
    assert await working == 1
    assert held == 2, "the instance's, and the batch's"
