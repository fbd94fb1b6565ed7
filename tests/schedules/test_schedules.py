"""Schedules: each time starts one task, whatever workers race, stop or come back; and what people may do with them."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import assent
from assent.app import App
from assent.model.actor import Actor
from assent.runtime.task_commands import TaskHandle
from assent.schedules.cron import TICKS_MAX
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import RunResult, WorkerContext
from assent.worker.schedules import Schedules
from assent.worker.upkeep import Names
from tests.plain_sql import wait_until_a_connection_is_blocked
from tests.processes.application import app as processes_app
from tests.processes.spawn import children
from tests.rows import insert
from tests.statements import StatementCounter
from tests.triggers.test_triggers import resources_of
from tests.workers import run_until_done, second_worker, with_options
from tests.world import ORG, fetch, insert_org

BERLIN = ZoneInfo("Europe/Berlin")
MANAGER = Actor("max", capabilities=frozenset({"schedules:*", "tasks:submit"}))

TASKS = """
SELECT s.org_id, s.type, s.input, s.submitted_by, s.partition_id, s.created_at
  FROM assent.task_submissions s WHERE s.org_id <> 'aatwin' ORDER BY s.created_at, s.id
"""


@pytest.fixture
def app(app: App) -> App:
    @app.task("tests.note")
    async def note(what: str = "") -> str:
        return what

    @app.task("tests.at", priority=7)
    async def at(scheduled_at: datetime, what: str = "") -> str:
        return f"{what} {scheduled_at}"

    app.resource("gpu", max_concurrency=1)

    @app.task("tests.train", resources=["gpu"])
    async def train() -> None: ...

    return app


@pytest.fixture
def place(app: App, database: Database) -> WorkerContext:
    return WorkerContext(database, runtime=app.runtime(database))


class Fleet:
    """The workers of a test, the schedules of its org, and the tasks that these have started."""

    def __init__(self, place: WorkerContext, clock: MovedClock) -> None:
        assert place.runtime is not None
        self.place, self.clock, self.runtime = place, clock, place.runtime

    @property
    def schedules(self) -> Any:
        return self.runtime.org(ORG, MANAGER).schedules

    async def save(
        self, name: str = "n", cron: str = "0 9 * * *", task: str = "tests.at", **more: Any
    ) -> Any:
        return await self.schedules.save(name, {"task": task, "cron": cron, **more})

    async def work(self) -> int:
        """What a worker does that starts now."""
        return (await run_until_done(Schedules(self.place))).count

    async def times(self, name: str = "n") -> list[datetime]:
        """The times for which a schedule has started tasks, in the order in which they were submitted."""
        rows = await fetch(self.place.database, TASKS)
        mine = [row for row in rows if row["submitted_by"] == f"schedule:{name}"]
        return [datetime.fromisoformat(row["input"]["scheduled_at"]) for row in mine]


@pytest.fixture
def fleet(place: WorkerContext, clock: MovedClock) -> Fleet:
    return Fleet(place, clock)


async def test_time_that_has_come_starts_one_task_and_the_next_one_is_told(fleet: Fleet) -> None:
    saved = await fleet.save(input={"what": "report"})
    assert await fleet.work() == 0
    fleet.clock.move_to(saved.next_at - timedelta(microseconds=1))
    assert await fleet.work() == 0
    fleet.clock.move_to(saved.next_at)
    assert [await fleet.work() for _ in range(3)] == [1, 0, 0]
    (task,) = await fetch(fleet.place.database, TASKS)
    assert dict(task) == {
        "org_id": ORG,
        "type": "tests.at",
        "input": {"what": "report", "scheduled_at": saved.next_at.isoformat()},
        "submitted_by": "schedule:n",
        "partition_id": None,
        "created_at": saved.next_at,
    }
    found = await fleet.schedules.get("n")
    assert (found.last_at, found.next_at) == (saved.next_at, saved.next_at + timedelta(days=1))
    view = await fleet.runtime.org(ORG).tasks.get(found.last_task_id)
    assert (view.status, view.priority) == ("queued", 7)


async def test_tasks_of_a_schedule_have_the_limits_of_their_type(fleet: Fleet) -> None:
    saved = await fleet.save(task="tests.train")
    await fleet.schedules.run(saved.name)
    fleet.clock.move_to(saved.next_at)
    assert await fleet.work() == 1
    assert await resources_of(fleet.place.database, "tests.train") == [["gpu"], ["gpu"]]


async def test_both_changes_of_the_clocks_start_one_task_a_day(fleet: Fleet) -> None:
    """A worker that runs all year; the hour of the schedule is skipped in March and comes twice in October."""
    await fleet.save(cron="30 2 * * *", zone="Europe/Berlin")
    for day in (datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)):
        fleet.clock.move_to(day)
        await fleet.work()
        before = len(await fleet.times())
        for _ in range(4 * 24 * 2):
            fleet.clock.advance("30m")
            await fleet.work()
        found = (await fleet.times())[before:]
        dates = Counter(at.astimezone(BERLIN).date() for at in found)
        assert list(dates.values()) == [1] * 4, dates
    here = [f"{at.astimezone(BERLIN):%m-%dT%H:%M %Z}" for at in await fleet.times()]
    assert "03-29T03:00 CEST" in here
    assert "10-25T02:30 CEST" in here
    assert "10-25T02:30 CET" not in here


@pytest.mark.parametrize(("missed", "hours"), [("skip", []), ("once", [9]), ("all", [9, 9, 9])])
async def test_times_that_a_stopped_fleet_has_missed(fleet: Fleet, missed: str, hours: list[int]) -> None:
    saved = await fleet.save(missed=missed)
    fleet.clock.move_to(saved.next_at + timedelta(days=2, hours=5))
    assert await fleet.work() == len(hours)
    found = await fleet.times()
    assert [at.hour for at in found] == hours
    assert found[-1:] == [saved.next_at + timedelta(days=2)][: len(hours)], "once is for the last of them"
    fleet.clock.move_to(saved.next_at + timedelta(days=3, seconds=50))
    assert await fleet.work() == 1, "one that is seen within a minute was not missed"


async def test_more_times_than_one_transaction_takes_are_made_up_for(fleet: Fleet) -> None:
    saved = await fleet.save(cron="* * * * *", missed="all")
    late = 2 * TICKS_MAX + 50
    fleet.clock.move_to(saved.next_at + timedelta(minutes=late))
    assert await Schedules(fleet.place).run_once() == RunResult(TICKS_MAX, more=True)
    assert await fleet.work() == late + 1 - TICKS_MAX
    assert await fleet.times() == [saved.next_at + timedelta(minutes=count) for count in range(late + 1)]


async def test_two_workers_at_once_start_every_task_exactly_once(fleet: Fleet) -> None:
    for number in range(40):
        await fleet.save(f"s{number}", "*/5 * * * *", missed="all")
    fleet.clock.advance("1h")
    place = with_options(fleet.place, schedules_batch_max=3)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Schedules(place)), run_until_done(Schedules(other)))
    assert all(one.count for one in done), "both had a part in it"
    rows = await fetch(fleet.place.database, TASKS)
    fired = Counter((row["submitted_by"], row["input"]["scheduled_at"]) for row in rows)
    assert len(fired) == 40 * 12
    assert set(fired.values()) == {1}


async def test_processes_that_race_start_every_task_exactly_once(database: Database) -> None:
    commands = processes_app.runtime(database).org(ORG, MANAGER).schedules
    for number in range(30):
        task = {"task": "tests.run", "cron": "*/10 * * * *", "missed": "all", "input": {"what": "x"}}
        await commands.save(f"s{number}", task)
    assert isinstance(database.clock, MovedClock)
    database.clock.advance("1h")
    async with children(database, 2) as workers:
        counts = await asyncio.gather(*(child.ask("fire_schedules") for child in workers))
    assert all(isinstance(count, int) for found in counts for count in found), counts
    rows = await fetch(database, TASKS)
    assert sum(map(sum, counts)) == len(rows) == 30 * 6
    assert set(Counter(row["submitted_by"] for row in rows).values()) == {6}


async def test_schedule_that_a_worker_holds_is_left_to_it(fleet: Fleet) -> None:
    """The race itself: one has claimed and not committed; the other starts nothing, before the commit and after it."""
    saved = await fleet.save()
    fleet.clock.move_to(saved.next_at)
    async with second_worker(fleet.place) as other:
        first = Schedules(fleet.place)
        async with fleet.place.database.transaction(None) as connection:
            assert (await first._fire(connection)).count == 1
            assert (await Schedules(other).run_once()).count == 0
        assert (await Schedules(other).run_once()).count == 0
    assert len(await fleet.times()) == 1


async def test_change_waits_for_the_worker_that_starts_the_task(fleet: Fleet, database: Database) -> None:
    """It goes on from the time that the worker has moved the schedule to, and not from the one before."""
    saved = await fleet.save()
    fleet.clock.move_to(saved.next_at)
    async with database.transaction(None) as connection:
        await Schedules(fleet.place)._fire(connection)
        changing = asyncio.create_task(fleet.save(input={"what": "more"}))
        async with database.transaction(None) as observer:
            await wait_until_a_connection_is_blocked(observer)
    assert (await changing).next_at == saved.next_at + timedelta(days=1)
    assert await fleet.work() == 0


async def test_rolled_back_task_leaves_its_time_to_be_taken_again(fleet: Fleet) -> None:
    saved = await fleet.save()
    fleet.clock.move_to(saved.next_at)

    async def fire_and_fail() -> None:
        async with fleet.place.database.transaction(None) as connection:
            await Schedules(fleet.place)._fire(connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fire_and_fail()
    assert await fleet.times() == []
    assert await fleet.work() == 1


async def test_statements_do_not_grow_with_the_batch(
    fleet: Fleet, statement_counter: StatementCounter
) -> None:
    sent = []
    for size in (1, 30):
        for number in range(size):
            await fleet.save(f"s{size}-{number}", "0 * * * *")
        fleet.clock.advance("1h")
        statement_counter.clear()
        assert (await Schedules(fleet.place).run_once()).count >= size
        sent.append(len(statement_counter))
    assert sent[0] == sent[1]


async def test_schedule_that_is_due_before_the_next_poll_is_armed(fleet: Fleet) -> None:
    saved = await fleet.save()
    place = with_options(fleet.place, schedules_interval_ms=1_000)
    fleet.clock.move_to(saved.next_at - timedelta(seconds=1.25))
    assert await Schedules(place).run_once() == RunResult(0, again_in_s=1.25)


async def test_paused_schedule_starts_nothing_and_makes_up_for_nothing(fleet: Fleet) -> None:
    saved = await fleet.save(missed="all")
    assert (await fleet.schedules.pause("n")).paused
    fleet.clock.advance("3d")
    assert await fleet.work() == 0
    resumed = await fleet.schedules.resume("n")
    assert resumed.next_at == saved.next_at + timedelta(days=3)
    assert await fleet.work() == 0
    run = await fleet.schedules.run("n")
    task = await fleet.runtime.org(ORG).tasks.get(run)
    assert (task.submitted_by, task.input["scheduled_at"]) == ("max", fleet.clock.now().isoformat())
    assert (await fleet.schedules.get("n")).next_at == resumed.next_at, "its times stay"


async def test_next_times_are_those_that_come(fleet: Fleet) -> None:
    saved = await fleet.save(cron="0 9 * * MON-FRI", zone="Europe/Berlin")
    told = await fleet.schedules.next("n", count=9)
    assert told[0] == saved.next_at
    for at in told:
        fleet.clock.move_to(at)
        assert await fleet.work() == 1
    assert await fleet.times() == list(told)
    assert {at.astimezone(BERLIN).strftime("%a %H") for at in told} == {
        f"{day} 09" for day in ("Mon", "Tue", "Wed", "Thu", "Fri")
    }


async def test_changed_line_counts_from_the_change_and_another_input_changes_no_time(fleet: Fleet) -> None:
    saved = await fleet.save()
    fleet.clock.move_to(saved.next_at + timedelta(days=4))
    changed = await fleet.save(input={"what": "more"})
    assert changed.next_at == saved.next_at, "what was missed is still missed"
    assert (await fleet.save(cron="0 10 * * *")).next_at > fleet.clock.now()
    first_monday = (await fleet.save(cron="0 10 * * MON#1")).next_at
    assert (first_monday.weekday(), first_monday.day <= 7) == (0, True)


async def test_line_that_no_machine_understands_is_paused_and_holds_no_other_back(
    fleet: Fleet, database: Database
) -> None:
    await fleet.save("good")
    await fleet.save("bad")
    async with database.transaction(None) as connection:
        await connection.execute("UPDATE assent.schedules SET zone = 'Mars/Olympus' WHERE name = 'bad'")
    fleet.clock.advance("1d")
    assert await fleet.work() == 1
    bad = await fleet.schedules.get("bad")
    assert bad.paused
    assert "Mars/Olympus" in bad.problem
    with pytest.raises(assent.Invalid, match="UNKNOWN_ZONE"):
        await fleet.schedules.resume("bad")
    await fleet.save("bad", zone="UTC")
    resumed = await fleet.schedules.resume("bad")
    assert (resumed.paused, resumed.problem) == (False, None)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"task": "tests.at", "cron": "0 25 * * *"}, "BAD_CRON"),
        ({"task": "tests.at", "cron": "often"}, "BAD_CRON"),
        ({"task": "tests.at", "cron": "0 9 * * *", "zone": "Berlin"}, "UNKNOWN_ZONE"),
        ({"task": "tests.at", "cron": "0 9 * * *", "missed": "never"}, "BAD_VALUE"),
        ({"task": "tests.at", "cron": "0 9 * * *", "input": {"whom": 1}}, "UNKNOWN_KEY"),
        ({"task": "tests.at", "cron": "0 9 * * *", "input": {"scheduled_at": "x"}}, "BAD_VALUE"),
        ({"task": "tests.no", "cron": "0 9 * * *"}, "UNKNOWN_TASK"),
        ({"task": "tests.at"}, "MISSING_KEY"),
    ],
)
async def test_schedule_that_could_not_run_is_not_saved(fleet: Fleet, given: Any, code: str) -> None:
    with pytest.raises((assent.Invalid, assent.Refused), match=code):
        await fleet.schedules.save("n", given)
    with pytest.raises(assent.Refused, match="NOT_FOUND"):
        await fleet.schedules.get("n")


async def test_rights_to_manage_to_submit_and_to_read(app: App, fleet: Fleet) -> None:
    @app.task("tests.secret", capability="tests:secret")
    async def secret() -> None: ...

    runtime = app.runtime(fleet.place.database)
    of_secret = {"task": "tests.secret", "cron": "0 9 * * *"}
    for held, refused in (
        ({"schedules:read"}, True),
        ({"tests:secret"}, True),
        ({"schedules:manage", "tasks:submit"}, True),
        ({"schedules:manage", "tests:secret"}, False),
    ):
        commands = runtime.org(ORG, Actor("eve", capabilities=frozenset(held))).schedules
        if refused:
            with pytest.raises(assent.Refused, match="POLICY_DENIED"):
                await commands.save("n", of_secret)
        else:
            await commands.save("n", of_secret)
    with pytest.raises(assent.Refused, match="POLICY_DENIED"):
        await runtime.org(ORG, MANAGER).schedules.run("n")
    none = runtime.org(ORG, Actor("eve")).schedules
    reader = runtime.org(ORG, Actor("eve", capabilities=frozenset({"schedules:read"}))).schedules
    for read in ("list", "get", "next"):
        names = () if read == "list" else ("n",)
        with pytest.raises(assent.Refused, match="POLICY_DENIED"):
            await getattr(none, read)(*names)
        await getattr(reader, read)(*names)
    for change in ("pause", "resume", "delete", "run"):
        with pytest.raises(assent.Refused, match="POLICY_DENIED"):
            await getattr(reader, change)("n")


async def test_schedule_of_a_partition_starts_its_tasks_there_and_is_seen_there(fleet: Fleet) -> None:
    south = fleet.runtime.org(ORG, MANAGER, "south").schedules
    await south.save("n", {"task": "tests.note", "cron": "0 9 * * *"})
    north = fleet.runtime.org(ORG, MANAGER, "north").schedules
    assert (await north.list()).items == []
    for command in ("get", "pause", "run", "delete"):
        with pytest.raises(assent.Refused, match="NOT_FOUND"):
            await getattr(north, command)("n")
    with pytest.raises(assent.Refused, match="NOT_FOUND"):
        await north.save("n", {"task": "tests.note", "cron": "0 9 * * *"})
    assert [one.name for one in (await fleet.schedules.list()).items] == ["n"]
    fleet.clock.advance("1d")
    await fleet.work()
    (task,) = await fetch(fleet.place.database, TASKS)
    assert task["partition_id"] == "south"


async def test_times_are_no_entries_of_the_audit_log_and_changes_are(
    fleet: Fleet, database: Database
) -> None:
    await fleet.save()
    await fleet.schedules.pause("n")
    await fleet.schedules.resume("n")
    fleet.clock.advance("3d")
    await fleet.work()
    await fleet.schedules.delete("n")
    entries = await fetch(
        database,
        "SELECT action, actor_id, subject_id, changes FROM assent.audit_log"
        " WHERE subject_kind = 'schedule' AND org_id = 'acme'",
    )
    found = sorted((row["action"], row["actor_id"], row["subject_id"]) for row in entries)
    assert found == [(f"schedule.{verb}", "max", "n") for verb in ("change", "change", "create", "delete")]
    assert {"paused": [False, True]} in [row["changes"] for row in entries]


@pytest.fixture
async def orgs(database: Database) -> None:
    async with database.transaction(None) as connection:
        for org_id in ("acme", "globex"):
            await insert_org(connection, org_id, {})


def declaring(app: App, cron: str = "0 9 * * *", **more: Any) -> App:
    """The application with a schedule that its code declares."""
    app.schedule(cron, name="nightly", **more)(TaskHandle("tests.at", print))
    return app


async def nightly(database: Database) -> dict[str, str]:
    ours = (
        "SELECT org_id, cron FROM assent.schedules WHERE name = 'nightly' AND org_id <> 'aatwin' ORDER BY 1"
    )
    rows = await fetch(database, ours)
    return {row["org_id"]: row["cron"] for row in rows}


def worker_of(app: App, place: WorkerContext) -> Schedules:
    return Schedules(WorkerContext(place.database, runtime=app.runtime(place.database)))


@pytest.mark.without_twin
@pytest.mark.usefixtures("orgs")
async def test_declared_schedule_runs_in_all_orgs_also_in_those_that_come_later(
    app: App, place: WorkerContext, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = worker_of(declaring(app), place)
    await worker.run_once()
    assert (await nightly(place.database)).keys() == {"acme", "globex"}
    async with place.database.transaction(None) as connection:
        await insert(connection, "members", org_id="initech")
    monkeypatch.setattr("assent.worker.schedules.DECLARED_EVERY_S", 0.0)
    clock.advance("1d")
    assert (await worker.run_once()).count == 2
    assert (await nightly(place.database)).keys() == {"acme", "globex", "initech"}
    clock.advance("1d")
    assert (await worker.run_once()).count == 3


@pytest.mark.usefixtures("orgs")
async def test_code_changes_its_schedule_when_a_worker_starts_and_no_older_one_changes_it_back(
    place: WorkerContext, app: App, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.worker.schedules.DECLARED_EVERY_S", 0.0)
    newer = App()
    newer.tasks.update(app.tasks)
    newer.resources.update(app.resources)
    older = worker_of(declaring(app, orgs=["acme", "globex"]), place)
    await older.run_once()
    last = worker_of(declaring(newer, "0 10 * * *", orgs=["acme"]), place)
    await last.run_once()
    await older.run_once()
    assert (await nightly(place.database))["acme"] == "0 10 * * *"
    assert (await nightly(place.database))["globex"] == "0 9 * * *", "the older worker still declares it"
    clock.advance("1d")
    assert (await last.run_once()).count == 1, "what it is not for is not started by it"
    assert (await older.run_once()).count == 1


@pytest.mark.usefixtures("orgs")
async def test_declared_schedule_is_changed_by_code_alone_and_deleted_when_no_worker_declares_it(
    app: App, place: WorkerContext, clock: MovedClock
) -> None:
    declared = WorkerContext(place.database, runtime=declaring(app, orgs=["acme"]).runtime(place.database))
    await Schedules(declared).run_once()
    await Names(declared).run_once()
    assert declared.runtime is not None
    commands = declared.runtime.org("acme", MANAGER).schedules
    with pytest.raises(assent.Refused, match="SCHEDULE_DECLARED"):
        await commands.save("nightly", {"task": "tests.at", "cron": "0 1 * * *"})
    with pytest.raises(assent.Refused, match="SCHEDULE_DECLARED"):
        await commands.delete("nightly")
    await commands.pause("nightly")
    await Schedules(declared).run_once()
    assert (await commands.get("nightly")).paused, "a worker that starts does not resume it"
    await commands.resume("nightly")
    clock.advance("2d")
    without = App()
    without.tasks.update(app.tasks)
    without.resources.update(app.resources)
    assert (await worker_of(without, place).run_once()).count == 0, "its code does not declare it"
    await commands.delete("nightly")
    assert await nightly(place.database) == {}


@pytest.mark.usefixtures("orgs")
async def test_schedule_that_an_org_has_made_stays_where_code_declares_one_of_its_name(
    app: App, place: WorkerContext
) -> None:
    assert place.runtime is not None
    own = {"task": "tests.note", "cron": "0 1 * * *"}
    await place.runtime.org("acme", MANAGER).schedules.save("nightly", own)
    await worker_of(declaring(app, orgs=["acme", "globex"]), place).run_once()
    assert await nightly(place.database) == {"acme": "0 1 * * *", "globex": "0 9 * * *"}


@pytest.mark.parametrize(
    ("line", "more", "error"),
    [
        ("0 25 * * *", {}, assent.Invalid),
        ("0 9 * * *", {"zone": "Berlin"}, assent.Invalid),
        ("0 9 * * *", {"missed": "sometimes"}, assent.Invalid),
        ("0 9 * * *", {"input": {"whom": 1}}, assent.Invalid),
        ("0 9 * * *", {"orgs": []}, ValueError),
        ("0 9 * * *", {"orgs": "acme"}, ValueError),
    ],
)
def test_declaration_that_could_not_run_is_refused_where_it_stands(
    app: App, line: str, more: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        declaring(app, line, **more)


def test_schedule_is_declared_once(app: App) -> None:
    declaring(app)
    with pytest.raises(assent.Invalid, match="DUPLICATE"):
        declaring(app)


async def test_resuming_takes_the_right_to_submit_the_task(fleet: Fleet) -> None:
    await fleet.save()
    await fleet.schedules.pause("n")
    other = Actor("oda", capabilities=frozenset({"schedules:manage"}))
    with pytest.raises(assent.Refused) as refused:
        await fleet.runtime.org(ORG, other).schedules.resume("n")
    assert refused.value.code == "POLICY_DENIED"
    assert (await fleet.schedules.get("n")).paused
