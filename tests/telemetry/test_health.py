"""Health says what waits, how fast it goes, what stands still and what was given up; and when that is wrong."""

import json
import subprocess
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from assent.operations.health import Health, HealthLimits, health
from assent.operations.queues import IncidentCount, Queue
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.queries import load_queries
from tests.authored import END, arrows, script
from tests.postgres import START
from tests.processes.commands import ASSENT, ROOT
from tests.rows import (
    insert_effect,
    insert_event,
    insert_instance,
    insert_job,
    insert_request,
    insert_seat,
    insert_step,
)
from tests.twin import TWIN_ROWS
from tests.world import ANN, ORG, drain, publish_steps

SQL = load_queries("assent.operations", "operations.sql")
MINUTE = timedelta(minutes=1)


def queue(found: Health, name: str) -> Queue:
    (one,) = [queue for queue in found.queues if queue.name == name]
    return one


async def put(database: Database, insert: Callable[..., Awaitable[Any]], **given: Any) -> Any:
    async with database.transaction(None) as connection:
        return await insert(connection, **given)


@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_nothing_waits_and_all_is_well(database: Database) -> None:
    found = await health(database)
    assert found.is_healthy
    assert [queue.name for queue in found.queues] == [
        "events",
        "effects",
        "results",
        "tasks",
        "timers",
        "people",
    ]
    assert {(queue.pending, queue.delayed, queue.oldest_s, queue.dead) for queue in found.queues} == {
        (0, 0, 0, 0)
    }
    assert (found.latency.events, found.latency.p95_s) == (0, None)


WAITING: dict[str, Any] = {
    "events": (insert_event, {}, "failed", "retry_at", {"status": "completed", "completed_at": START}),
    "effects": (insert_effect, {"run_at": START - 3 * MINUTE}, "retrying", "run_at", {"status": "done"}),
}
"""Queue → how a row of it comes to be, begins, fails, waits for its time and is done."""


@pytest.mark.parametrize("name", WAITING)
@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_what_is_due_is_pending_and_what_waits_for_its_time_is_delayed(
    database: Database, name: str
) -> None:
    insert, first, failed, due, done = WAITING[name]
    long_ago = START - 9 * MINUTE
    await put(database, insert, created_at=START - 3 * MINUTE, **first)
    await put(database, insert, created_at=long_ago, status=failed, **{due: START - 5 * MINUTE})
    await put(database, insert, created_at=long_ago, status=failed, **{due: START + MINUTE})
    await put(database, insert, created_at=long_ago, **done)
    await put(database, insert, created_at=long_ago, status="dead")
    assert queue(await health(database), name) == Queue(name, 2, 1, 300.0, 1)


@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_events_of_a_paused_instance_are_delayed_for_as_long_as_it_takes(
    runtime: Runtime, database: Database
) -> None:
    await put(database, insert_event, created_at=START - 90 * MINUTE)
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_events_outbox SET retry_at = 'infinity' WHERE org_id = 'acme'"
        )
    found = await health(database)
    assert queue(found, "events") == Queue("events", 0, 1, 0.0, 0)
    assert found.is_healthy


@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_timers_are_late_by_the_time_since_they_were_due(database: Database) -> None:
    await put(database, insert_step, resume_at=START - 2 * MINUTE)
    await put(database, insert_step, resume_at=START + MINUTE)
    found = await health(database)
    assert queue(found, "timers") == Queue("timers", 1, 1, 120.0, 0)
    assert found.problems == ("timers: 1 wait, the oldest for 120 s; is a worker running?",)


@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_people_who_take_their_time_are_no_problem(database: Database) -> None:
    request = await put(database, insert_request)
    await put(database, insert_seat, request=request, created_at=START - timedelta(days=3))
    gone = {"status": "closed", "closed_at": START}
    await put(database, insert_seat, request=request, created_at=START - timedelta(days=5), **gone)
    found = await health(database)
    assert queue(found, "people") == Queue("people", 1, 0, 3 * 86_400.0, 0)
    assert found.is_healthy


async def test_latency_is_of_the_events_of_the_last_hour(database: Database) -> None:
    for seconds in range(1, 101):
        at = START - MINUTE
        await put(
            database,
            insert_event,
            created_at=at - timedelta(seconds=seconds),
            status="completed",
            completed_at=at,
        )
    long_ago = START - timedelta(hours=2)
    await put(
        *(database, insert_event),
        created_at=long_ago - timedelta(days=1),
        status="completed",
        completed_at=long_ago,
    )
    latency = (await health(database)).latency
    assert (latency.events, latency.p50_s, latency.p95_s) == (100, pytest.approx(50.5), pytest.approx(95.05))


async def test_a_single_event_that_waited_for_a_worker_to_start_is_no_problem(database: Database) -> None:
    for _ in range(19):
        await put(database, insert_event, created_at=START - MINUTE, status="completed", completed_at=START)
    found = await health(database)
    assert (found.latency.p95_s, found.problems) == (pytest.approx(60), ())


async def test_slow_processing_is_a_problem(database: Database) -> None:
    for _ in range(20):
        await put(database, insert_event, created_at=START - MINUTE, status="completed", completed_at=START)
    assert (await health(database)).problems == ("one event in twenty takes longer than 60.0 s; add workers",)
    assert (await health(database, limits=HealthLimits(latency_p95_max_ms=60_000))).is_healthy


async def test_stuck_instance_is_a_problem_and_named(database: Database) -> None:
    instance = await put(database, insert_instance, updated_at=START - timedelta(hours=1), status="running")
    found = await health(database)
    assert [finding.instance_id for finding in found.stuck] == [instance["id"]]
    assert found.problems == (f"stuck: 1 instances, the first of them {instance['id']}",)


async def test_dead_letters_are_counted_by_kind_and_only_recent_ones_are_a_problem(
    database: Database,
) -> None:
    await put(
        database,
        insert_event,
        event_type="on_timer",
        status="dead",
        created_at=START - timedelta(days=9),
    )
    await put(database, insert_effect, type="email", status="dead", created_at=START - MINUTE)
    found = await health(database)
    assert [(each.queue, each.kind, each.number, each.recent) for each in found.dead_letters] == [
        ("effects", "email", 1, 1),
        ("events", "on_timer", 1, 0),
    ]
    assert found.problems == ("dead letters: 1 recent effects of kind email",)


async def test_instance_that_an_error_paused_is_a_problem_and_one_that_an_operator_paused_is_not(
    database: Database,
) -> None:
    paused = {"status": "paused", "workflow_id": "pay"}
    failed = {"incident": {"code": "URL_MISSING", "message": "no url", "node": "tell"}, **paused}
    await put(database, insert_instance, updated_at=START - 5 * MINUTE, **failed)
    await put(database, insert_instance, updated_at=START - 2 * MINUTE, **failed)
    await put(database, insert_instance, incident={"code": "PAUSED", "message": "", "node": None}, **paused)
    await put(database, insert_instance, org_id="other", **failed)
    found = await health(database, "acme")
    assert found.incidents == (IncidentCount("URL_MISSING", "pay", 2, START - 5 * MINUTE),)
    assert found.problems == (
        "incidents: 2 paused with URL_MISSING in pay, the oldest for 300 s; run `assent incidents`",
    )
    assert found.status == "degraded"


@pytest.mark.parametrize("partition_id", [None, "north"])
async def test_what_a_worker_has_claimed_is_counted(database: Database, partition_id: str | None) -> None:
    worker = uuid4()
    instance = await put(database, insert_instance, partition_id="north")
    await put(database, insert_event, status="processing", instance_id=instance["id"])
    claimed = {"status": "running", "worker_id": worker, "claimed_at": START}
    await put(database, insert_effect, instance_id=instance["id"], **claimed)
    found = await health(database, "acme", partition_id=partition_id)
    assert (queue(found, "events").processing, queue(found, "effects").processing) == (1, 1)
    assert (queue(found, "events").pending, queue(found, "effects").pending) == (0, 0)


async def test_org_sees_only_what_is_its_own(database: Database) -> None:
    await put(database, insert_event, org_id="acme", created_at=START - 2 * MINUTE)
    await put(database, insert_event, org_id="other", created_at=START - 9 * MINUTE)
    await put(database, insert_event, org_id="other", status="dead")
    assert queue(await health(database), "events") == Queue("events", 2, TWIN_ROWS, 540.0, 1)
    assert queue(await health(database, "acme"), "events") == Queue("events", 1, 0, 120.0, 0)
    assert queue(await health(database, "nobody"), "events") == Queue("events", 0, 0, 0.0, 0)


async def test_look_at_the_queues_reads_indexes_and_no_table(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "line", [script("a"), END], arrows("a", "end"))
    await runtime.org(ORG, ANN).instances.start_many("line", [{}] * 50)
    await drain(runtime)
    async with database.transaction(None) as connection:
        await connection.execute(SQL.find_by_index)
        plan = await explain(connection, SQL.look_at_queues, START, 1000)
        paused = await explain(connection, SQL.count_incidents, 1000)
    assert "Index Only Scan" in plan
    assert "Seq Scan on" not in plan
    assert "Index Scan using instances_paused" in paused


async def explain(connection: Connection, sql: str, *given: Any) -> str:
    rows = await connection.fetch(f"EXPLAIN {sql}", *given)
    return "\n".join(row[0] for row in rows)


def run(url: str, *arguments: str) -> tuple[int, str]:
    environment = {"ASSENT_DATABASE_URL": url, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [ASSENT, "health", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_command_ends_with_zero_when_all_is_well_and_says_so(database: Database) -> None:
    code, out = run(database.url)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:7]] == [
        "queue",
        "events",
        "effects",
        "results",
        "tasks",
        "timers",
        "people",
    ]
    assert out.splitlines()[-1] == "✓ all is well"


@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_command_ends_with_one_and_says_what_is_wrong(database: Database) -> None:
    await put(database, insert_event, created_at=START)
    code, out = run(database.url)
    assert code == 1
    assert "✗ events: 1 wait" in out
    code, out = run(database.url, "--json")
    told = json.loads(out)
    assert (code, told["healthy"], told["queues"][0]["pending"]) == (1, False, 1)
    assert run(database.url, "--org", "somebody else")[0] == 0


@pytest.mark.without_twin("health counts the queues of all orgs")
async def test_tasks_that_wait_and_that_are_dead_are_seen(database: Database) -> None:
    clock = database.clock
    assert isinstance(clock, MovedClock)
    now = clock.now()
    async with database.transaction(None) as connection:
        await insert_job(connection, kind="task", lane="report.build", run_at=now)
        await insert_job(connection, kind="task", lane="report.build", run_at=now + timedelta(hours=2))
        await insert_job(connection, kind="task", lane="report.build", status="dead", ended_at=now)
    clock.advance("1h")
    found = await health(database)
    (queue,) = [queue for queue in found.queues if queue.name == "tasks"]
    assert (queue.pending, queue.delayed, queue.oldest_s, queue.dead) == (1, 1, 3600, 1)
    assert any(problem.startswith("tasks: 1 wait") for problem in found.problems)
    assert "dead letters: 1 recent tasks of kind report.build" in found.problems
