"""Workers as processes: what signals do, and that a worker which is killed loses nothing and holds up nobody."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest

from assent.model.ids import event_key
from assent.store.connection import Connection, connect
from assent.store.database import Database
from tests.plain_sql import BLOCKED_PIDS, WAIT_MAX_S, wait_until_a_connection_is_blocked
from tests.postgres import SETTINGS, START
from tests.processes.commands import RunningCommand, run_worker, worker
from tests.rows import insert, insert_event, insert_instance, insert_step
from tests.worker.application import HOLD_GATE
from tests.workers import events
from tests.world import count, fetch

EVENTS = ("--app", "tests.worker.application:app", "--only", "events")
ONE_LANE = {"ASSENT_WORKER_EVENTS_LANES": "1"}


@dataclass
class HeldUp:
    """A worker in the middle of a transaction that cannot go on before a lock is released."""

    process: RunningCommand
    holding: Connection
    worker_pid: int

    async def release(self) -> None:
        await self.holding.execute("ROLLBACK")

    async def release_when_killed(self) -> None:
        """Kill the worker without a word, and wait until the server has given up its transaction."""
        self.process.send(signal.SIGKILL)
        assert await self.process.ended() == -signal.SIGKILL
        await self.release()
        async with asyncio.timeout(WAIT_MAX_S):
            alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
            while await self.holding.fetchval(alive, self.worker_pid):
                pass


@asynccontextmanager
async def held_up(database: Database, hold: str, *arguments: str, **variables: str) -> AsyncIterator[HeldUp]:
    holding = await connect(database.url, SETTINGS)
    try:
        await holding.execute("BEGIN")
        await holding.execute(hold)
        async with worker(database.url, *arguments, **variables) as process:
            await wait_until_a_connection_is_blocked(holding)
            yield HeldUp(process, holding, await holding.fetchval(BLOCKED_PIDS))
    finally:
        await holding.close()


async def insert_pending_event(database: Database) -> None:
    async with database.transaction(None) as connection:
        await insert_event(connection)


async def statuses(database: Database) -> list[str]:
    return sorted(event["status"] for event in await events(database))


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_idle_worker_ends_with_zero_when_it_is_asked_to(database, stop):
    async with worker(database.url) as process:
        process.send(stop)
        assert (await process.line("worker stopping"))["signal"] == stop.name
        assert (await process.line("worker stopped"))["finished"] is True
        assert await process.ended() == 0


async def test_worker_that_is_asked_to_stop_finishes_its_batch_and_begins_no_other(database):
    await insert_pending_event(database)
    async with held_up(database, HOLD_GATE, *EVENTS, **ONE_LANE) as held:
        held.process.send(signal.SIGTERM)
        await held.process.line("worker stopping")
        await insert_pending_event(database)
        assert held.process.runs
        await held.release()
        assert await held.process.ended() == 0
    assert await statuses(database) == ["completed", "pending"]


async def test_when_the_grace_period_is_over_the_worker_ends_and_its_batch_waits_for_another(database):
    await insert_pending_event(database)
    grace = {"ASSENT_WORKER_GRACE_PERIOD_MS": "50"}
    async with held_up(database, HOLD_GATE, *EVENTS, **ONE_LANE, **grace) as held:
        held.process.send(signal.SIGTERM)
        assert (await held.process.line("grace period is over, cutting off"))["duties"] == ["events"]
        assert await held.process.ended() == 3
    assert await statuses(database) == ["pending"]
    assert (await run_worker(database.url, *EVENTS, "--once"))[0] == 0
    assert await statuses(database) == ["completed"]


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_second_signal_ends_the_worker_at_once(database, second):
    await insert_pending_event(database)
    async with held_up(database, HOLD_GATE, *EVENTS, **ONE_LANE) as held:
        held.process.send(signal.SIGTERM)
        await held.process.line("worker stopping")
        held.process.send(second)
        assert await held.process.ended() == -second
    assert await statuses(database) == ["pending"]


async def test_killed_worker_loses_no_event_and_none_is_processed_twice(database):
    for _ in range(3):
        await insert_pending_event(database)
    async with held_up(database, HOLD_GATE, *EVENTS, **ONE_LANE) as held:
        await held.release_when_killed()
    assert await statuses(database) == ["pending"] * 3
    assert (await run_worker(database.url, *EVENTS, "--once"))[0] == 0
    assert [(event["status"], event["attempts"]) for event in await events(database)] == [
        ("completed", 1)
    ] * 3


async def test_others_go_on_beside_a_worker_that_is_held_up(database):
    await insert_pending_event(database)
    async with held_up(database, HOLD_GATE, *EVENTS, **ONE_LANE) as held:
        async with database.transaction(None) as connection:
            await insert_step(connection, resume_at=START)
        assert (await run_worker(database.url, "--only", "timers", "--once"))[0] == 0
        assert await statuses(database) == ["pending", "pending"]
        await held.release()


RECEIPT = """
INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key)
VALUES ('acme', '{}', 'events', '{}')
"""
"""What a worker must wait for that is about to put the same event into the outbox."""


async def test_timer_whose_worker_is_killed_between_claim_and_commit_fires_once(database):
    async with database.transaction(None) as connection:
        step = await insert_step(connection, resume_at=START)
    payload = {"cause": str(step["id"]), "step": str(step["id"]), "due": START.isoformat()}
    key = event_key(step["instance_id"], "on_timer", payload, 0)
    async with held_up(database, RECEIPT.format(step["instance_id"], key), "--only", "timers") as held:
        await held.release_when_killed()
    (left,) = await fetch(
        database, "SELECT resume_at FROM assent.workflow_step_executions WHERE org_id = 'acme'"
    )
    assert (left["resume_at"], await events(database)) == (START, [])
    for _ in range(2):
        assert (await run_worker(database.url, "--only", "timers", "--once"))[0] == 0
    assert [event["payload_json"] for event in await events(database)] == [payload]


async def test_expiry_whose_worker_is_killed_is_told_once(database):
    async with database.transaction(None) as connection:
        instance = await insert_instance(connection, expires_at=START)
    payload = {"cause": f"{instance['id']} {START.isoformat()}", "due": START.isoformat()}
    key = event_key(instance["id"], "on_expired", payload, 0)
    async with held_up(database, RECEIPT.format(instance["id"], key), "--only", "timeouts") as held:
        await held.release_when_killed()
    assert await events(database) == []
    for _ in range(2):
        assert (await run_worker(database.url, "--only", "timeouts", "--once"))[0] == 0
    assert [event["payload_json"] for event in await events(database)] == [payload]


LONG_AGO = START - timedelta(days=1_000)


async def test_sweeps_whose_worker_is_killed_have_done_nothing_and_do_it_later(database):
    async with database.transaction(None) as connection:
        await insert(connection, "orgs", org_id="acme", settings={"retention_days": 30})
        given = {"status": "completed", "updated_at": LONG_AGO, "completed_at": LONG_AGO}
        instance = await insert_instance(connection, **given)
        about = {"instance_id": instance["id"]}
        await insert_step(connection, **about, status="completed", created_at=LONG_AGO, output_json={"x": 1})
        await insert(connection, "workflow_step_receipts", **about)
    locks = {
        "prune": "SELECT FROM assent.workflow_step_receipts WHERE org_id = 'acme' FOR UPDATE",
        "compact": "SELECT FROM assent.workflow_step_executions WHERE org_id = 'acme' FOR UPDATE",
        "retention": "SELECT FROM assent.workflow_step_executions WHERE org_id = 'acme' FOR UPDATE",
    }
    tables = ("workflow_step_receipts", "step_compactions", "workflow_instances")
    left = []
    for duty, lock in locks.items():
        before = [await count(database, table) for table in tables]
        async with held_up(database, lock, "--only", duty) as held:
            await held.release_when_killed()
        assert [await count(database, table) for table in tables] == before
        assert (await run_worker(database.url, "--only", duty, "--once"))[0] == 0
        left.append([await count(database, table) for table in tables])
    assert left == [[0, 0, 1], [0, 1, 1], [0, 1, 0]]


async def test_worker_says_what_it_did_when_it_stops(database):
    for _ in range(5):
        await insert_pending_event(database)
    async with held_up(database, HOLD_GATE, *EVENTS, **ONE_LANE) as held:
        await held.release()
        held.process.send(signal.SIGTERM)
        report = await held.process.line("duty report")
        while report["duty"] != "events":
            report = await held.process.line("duty report")
    assert (report["duty"], report["count"], report["errors"]) == ("events", 5, 0)
