"""Resources and rate limits: no more than they allow, at any instant, under any interleaving."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import asyncpg
import pytest

import assent
from assent.app import App
from assent.jobs import throttles
from assent.model.mutation import Refused
from assent.model.problems import Invalid
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.postgres import SETTINGS
from tests.statements import StatementCounter
from tests.tasks.spans import HISTORY, most_at_once, spans_by_resource
from tests.workers import OpenTasksWorker, TasksWorker
from tests.world import ORG, fetch

OPEN = "SELECT FROM assent.jobs WHERE org_id = 'acme' AND ended_at IS NULL"


class Gauge:
    """How many functions run with each resource at this instant, and how many ever did."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def run(self, *names: str) -> None:
        self.now.update(names)
        self.most |= self.now
        await asyncio.sleep(0)
        self.now.subtract(names)


@pytest.fixture
def gauge(app: App, monkeypatch: pytest.MonkeyPatch) -> Gauge:
    # A worker that a test steps hears no notifications.
    monkeypatch.setattr(throttles, "LOOK_EVERY_S", 0.0)
    gauge = Gauge()
    app.resource("ollama", max_concurrency=2)
    app.resource("gpu", max_concurrency=1)
    app.resource("store")

    @app.task("tests.embed", resources=["ollama"])
    async def embed() -> None:
        await gauge.run("ollama")

    @app.task("tests.train", resources=["ollama", "gpu"])
    async def train() -> None:
        await gauge.run("ollama", "gpu")

    @app.task("tests.save", resources=["store"])
    async def save() -> None:
        await gauge.run("store")

    @app.task("tests.free")
    async def free() -> None: ...

    @app.task("tests.call", rate_limit=assent.RateLimit(3, per="1m", by="customer"))
    async def call(customer: str) -> None: ...

    return gauge


@pytest.fixture
async def worker(gauge: Gauge, open_tasks_worker: OpenTasksWorker) -> TasksWorker:
    worker = open_tasks_worker()
    await worker.work()  # it declares the resources
    return worker


def tasks(type: str, number: int, **rest: Any) -> list[assent.NewTask]:
    return [assent.NewTask(type, **rest) for _ in range(number)]


async def submit_all(worker: TasksWorker, many: Sequence[assent.NewTask], org: str = ORG) -> list[UUID]:
    return [task.id for task in await worker.runtime.org(org).tasks.submit_many(many)]


async def test_third_waits_until_one_of_two_has_ended(worker: TasksWorker) -> None:
    ids = await submit_all(worker, tasks("tests.embed", 3))
    first, second = await worker.claim(5)
    assert await worker.claim(5) == []
    assert {first.id, second.id} == set(ids[:2])
    await worker.runtime.org(ORG).tasks.cancel(first.id)
    (third,) = await worker.claim(5)
    assert third.id == ids[2]
    (shown,) = [one for one in (await worker.runtime.org(ORG).resources.list()).items if one.name == "ollama"]
    assert (shown.max_concurrency, shown.running, shown.waiting) == (2, 2, 0)


async def test_resource_of_a_dead_worker_is_free_when_its_lease_is_over(worker: TasksWorker) -> None:
    await submit_all(worker, tasks("tests.train", 2))
    assert len(await worker.claim(5)) == 1
    assert await worker.claim(5) == []
    await worker.sweep()
    assert len(await worker.claim(5)) == 1, "the first as a suspect, or the second"


async def test_worker_leaves_what_it_cannot_reach_to_others(
    worker: TasksWorker, open_tasks_worker: OpenTasksWorker
) -> None:
    await submit_all(worker, [*tasks("tests.train", 1), *tasks("tests.embed", 1), *tasks("tests.free", 1)])
    without_gpu = open_tasks_worker(resources="ollama, store")
    assert {task.type for task in await without_gpu.claim(5)} == {"tests.embed", "tests.free"}
    assert {task.type for task in await worker.claim(5)} == {"tests.train"}
    with pytest.raises(Invalid, match="declares no resource `olama`"):
        open_tasks_worker(resources="olama")


async def test_what_is_submitted_past_the_application_is_limited_as_its_type_says(
    worker: TasksWorker,
) -> None:
    """SQL knows no types: the limits are found at the claim, in whose transaction the task never runs."""
    submit = (
        "SELECT assent.submit_task($1, $2, resources => $3) FROM set_config('assent.org_id', 'acme', true)"
    )
    for _ in range(4):
        await fetch(worker.database, submit, "tests.train", {}, ["ollama"])
    await fetch(worker.database, submit, "tests.free", {}, ["gpu"])
    for _ in range(4):
        await fetch(worker.database, submit, "tests.call", {"customer": "c-1"}, None)
    found = [await worker.claim(9) for _ in range(4)]
    claimed = Counter(task.type for some in found for task in some)
    assert claimed["tests.train"] + claimed["tests.free"] == 1, "one GPU"
    assert claimed["tests.call"] == 3
    with pytest.raises(asyncpg.InvalidParameterValueError, match="workers have declared"):
        await fetch(worker.database, submit, "tests.free", {}, ["olama"])


async def test_limit_that_is_lowered_holds_for_what_begins_then(
    app: App, database: Database, worker: TasksWorker
) -> None:
    await submit_all(worker, tasks("tests.embed", 4))
    assert len(await worker.claim(1)) == 1
    app.resources["ollama"] = 1
    newer = TasksWorker(app, database)
    await newer.duty._declare()
    assert await worker.claim(5) == [], "an older worker heeds it too"
    app.resources["ollama"] = 3
    await TasksWorker(app, database).duty._declare()
    assert len(await worker.claim(5)) == 2


async def test_orgs_take_turns_at_a_resource_with_one_place(worker: TasksWorker, clock: MovedClock) -> None:
    await submit_all(worker, tasks("tests.train", 6), "big")
    clock.advance("1m")
    await submit_all(worker, tasks("tests.train", 2), "small")
    served = []
    for _ in range(4):
        (task,) = await worker.claim(5)
        served.append(task.org_id)
        await worker.runtime.org(task.org_id).tasks.cancel(task.id)
    assert Counter(served) == {"big": 2, "small": 2}


async def test_throttled_tasks_and_others_do_not_starve_each_other(worker: TasksWorker) -> None:
    await submit_all(worker, [*tasks("tests.save", 50), *tasks("tests.free", 50)])
    first, second = [Counter(task.type for task in await worker.claim(10)) for _ in range(2)]
    assert set(first) | set(second) == {"tests.save", "tests.free"}


async def test_limits_hold_at_every_instant_whatever_races(
    app: App, database: Database, worker: TasksWorker, gauge: Gauge
) -> None:
    """Four workers over connections of their own, each with two lanes, at 160 tasks; a claim of one is held open."""
    await submit_all(
        worker,
        [*tasks("tests.embed", 80), *tasks("tests.train", 40), *tasks("tests.free", 20, resources=["gpu"])],
    )
    async with AsyncExitStack() as stack:
        databases = [await Database.open(database.url, settings=SETTINGS) for _ in range(4)]
        for opened in databases:
            stack.push_async_callback(opened.close)
        workers = [TasksWorker(app, one) for one in databases]

        async def run(one: TasksWorker) -> None:
            async with asyncio.timeout(60):
                while await fetch(one.database, OPEN):
                    await one.duty.run_once()

        await asyncio.gather(*(run(one) for one in workers for _ in range(2)))
        for one in workers:
            await one.duty.finish()
    assert gauge.most["ollama"] <= 2
    assert gauge.most["gpu"] <= 1
    spans = await spans_by_resource(database)
    assert {name: most_at_once(spans[name]) for name in ("ollama", "gpu")} == {"ollama": 2, "gpu": 1}
    attempts = await fetch(database, "SELECT outcome FROM assent.job_attempts WHERE org_id = 'acme'")
    assert [row["outcome"] for row in attempts] == ["done"] * 140


async def test_two_claims_at_one_moment_do_not_count_the_same_room(
    app: App, database: Database, worker: TasksWorker
) -> None:
    """The second claims while the first has claimed and not committed: it sees a free place, and takes none."""
    await submit_all(worker, tasks("tests.embed", 6))
    other = TasksWorker(app, database)
    async with database.transaction(None) as connection:
        assert len(await worker.duty._claim(connection, 5)) == 2
        assert await other.claim(5) == []
        assert other.duty._throttled.again_in_s is not None, "it comes back soon"
    assert await other.claim(5) == []


async def test_tasks_without_limits_wait_for_no_claim_of_others(
    app: App, database: Database, worker: TasksWorker
) -> None:
    """While a claim holds the lock of a resource, and its room, tasks that use none are claimed as ever."""
    await submit_all(worker, [*tasks("tests.embed", 6), *tasks("tests.free", 4)])
    other = TasksWorker(app, database)
    async with database.transaction(None) as connection:
        await worker.duty._throttled.claim(connection, 5)
        assert [task.type for task in await other.claim(9)] == ["tests.free"] * 4


async def test_claim_of_a_worker_without_throttled_tasks_sends_no_more_statements(
    worker: TasksWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for some once a second, and where it is notified of one."""
    await submit_all(worker, tasks("tests.free", 30))
    monkeypatch.setattr(throttles, "LOOK_EVERY_S", 3_600.0)
    statements = StatementCounter()
    with worker.database.observe(statements):
        assert len(await worker.claim(10)) == 10
    assert [name for name in statements.names if "throttle" in name or "limit" in name] == []


def starts_in_any_period(starts: Sequence[datetime], period: timedelta) -> int:
    return max(sum(at <= other < at + period for other in starts) for at in starts)


async def test_rate_limit_counts_any_period_and_each_key_apart(
    worker: TasksWorker, clock: MovedClock
) -> None:
    for customer in ("c-1", "c-1", "c-2"):
        await submit_all(worker, tasks("tests.call", 3, input={"customer": customer}))
    await submit_all(worker, tasks("tests.call", 4, input={"customer": "c-1"}), "globex")
    for _ in range(9):
        await worker.work()
        clock.advance("20s")
    found = await fetch(worker.database, HISTORY)
    assert Counter(row["rate_key"] for row in found) == {"tests.call: c-1": 10, "tests.call: c-2": 3}
    starts = [
        row["started_at"]
        for row in await fetch(worker.database, HISTORY.replace("<> 'aatwin'", "= 'acme'"))
        if row["rate_key"] == "tests.call: c-1"
    ]
    assert starts_in_any_period(starts, timedelta(minutes=1)) == 3
    assert (await fetch(worker.database, "SELECT count(*) FROM assent.rate_starts WHERE org_id <> 'aatwin'"))[
        0
    ][0] <= 9


async def test_rate_limit_holds_in_every_period_whatever_races(
    app: App, database: Database, worker: TasksWorker
) -> None:
    limit = assent.RateLimit(5, per=timedelta(milliseconds=150), key="crm")
    await submit_all(worker, tasks("tests.free", 40, rate_limit=limit))
    async with AsyncExitStack() as stack:
        databases = [await Database.open(database.url, settings=SETTINGS) for _ in range(3)]
        for opened in databases:
            stack.push_async_callback(opened.close)
        workers = [TasksWorker(app, one) for one in databases]

        async def run(one: TasksWorker) -> None:
            async with asyncio.timeout(60):
                while await fetch(one.database, OPEN):
                    done = await one.duty.run_once()
                    await asyncio.sleep(min(done.again_in_s or 0, 0.02))

        await asyncio.gather(*(run(one) for one in workers))
        for one in workers:
            await one.duty.finish()
    starts = [row["started_at"] for row in await fetch(database, HISTORY)]
    assert len(starts) == 40
    assert starts_in_any_period(starts, timedelta(milliseconds=150)) == 5
    assert max(later - at for at, later in pairwise(starts)) < timedelta(seconds=2), (
        "it comes back when there is room"
    )


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"resources": ["olama"]}, "UNKNOWN_RESOURCE"),
        ({"rate_limit": assent.RateLimit(1, per="1m")}, "BAD_VALUE"),
        ({"rate_limit": assent.RateLimit(0, per="1m", key="k")}, "OUT_OF_RANGE"),
        ({"rate_limit": assent.RateLimit(1, per="soon", key="k")}, "BAD_DURATION"),
        ({"rate_limit": assent.RateLimit(1, per="1m", key=" ")}, "BAD_VALUE"),
        ({"resources": [f"r{n}" for n in range(11)]}, "UNKNOWN_RESOURCE"),
    ],
)
async def test_limits_that_cannot_be_are_refused(
    worker: TasksWorker, given: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refused) as refused:
        await submit_all(worker, tasks("tests.free", 1, **given))
    assert refused.value.rejection.code == code


async def test_submission_does_not_loosen_the_rate_of_its_type(worker: TasksWorker) -> None:
    limit = assent.RateLimit(100, per="1m", key="mine")
    with pytest.raises(Refused, match="limited by its type"):
        await submit_all(worker, tasks("tests.call", 1, input={"customer": "c"}, rate_limit=limit))


def test_task_that_uses_what_is_not_declared_is_a_mistake(app: App, database: Database) -> None:
    @app.task("tests.lost", resources=["ollama"])
    async def lost() -> None: ...

    with pytest.raises(Invalid, match="no resource `ollama` is declared"):
        app.runtime(database)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_limits_hold_at_every_instant(
    app: App, database: Database, clock: MovedClock, gauge: Gauge, seed: int
) -> None:
    """Claims, ends, kills, expired leases and cancels in any order; after each, what runs is counted."""
    random = Random(seed)  # noqa: S311
    workers = [TasksWorker(app, database, resources=names) for names in ("*", "ollama,gpu", "ollama")]
    for one in workers:
        await one.duty._declare()
    types = ("tests.embed", "tests.train", "tests.free", "tests.save")
    await submit_all(workers[0], [assent.NewTask(random.choice(types)) for _ in range(40)])
    held: list[tuple[TasksWorker, Any]] = []
    for _ in range(120):
        match random.choice(("claim", "claim", "end", "end", "kill", "expire", "cancel", "wait")):
            case "claim":
                one = random.choice(workers)
                held += [(one, task) for task in await one.claim(random.randint(1, 4))]
            case "end" if held:
                one, task = held.pop(random.randrange(len(held)))
                one.duty._results = [await result_of(one, task)]
                await one.duty._exchange(one.duty._results, 0)
                one.duty._results = []
            case "kill" if held:
                one = random.choice(held)[0]
                held = [each for each in held if each[0] is not one]
            case "expire":
                await workers[0].sweep()
                held = []
            case "cancel" if held:
                task = random.choice(held)[1]
                if await fetch(
                    database,
                    "SELECT FROM assent.jobs WHERE org_id = 'acme' AND id = $1 AND ended_at IS NULL",
                    task.id,
                ):
                    await workers[0].runtime.org(ORG).tasks.cancel(task.id)
            case _:
                clock.advance("10s")
        for row in await fetch(database, "SELECT * FROM assent.list_resources()"):
            assert row["running"] <= (row["max_concurrency"] or 1_000), row
    for _ in range(200):
        await workers[0].sweep()
        await workers[0].work()
        if not await fetch(database, OPEN):
            break
    assert await fetch(database, OPEN) == []


async def result_of(worker: TasksWorker, task: Any) -> Any:
    from assent.jobs.job import RetryPolicy, next_state

    outcome = (await worker.duty._attempts.make(task)).outcome
    return next_state(task, outcome, RetryPolicy())
