"""The fleet: every process says that it runs, is taken for lost when it says nothing, and is forgotten."""

import json
import os
import signal
from dataclasses import replace
from typing import Any

from assent.app import App
from assent.jobs.lease import Lease
from assent.model.actor import Actor
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import Duty, WorkerContext
from assent.worker.loop import finish
from assent.worker.nodes import Nodes
from assent.worker.supervisor import duties
from tests.processes.commands import RunningCommand, start_command, worker
from tests.statements import StatementCounter
from tests.workers import TasksWorker, with_options
from tests.world import ORG, fetch

OPERATOR = Actor("olga", capabilities=frozenset({"operations:read"}))


async def fleet(app: App, database: Database) -> list[tuple[str, str]]:
    page = await app.runtime(database).org(ORG, OPERATOR).operations.nodes()
    return [(node.host, node.status) for node in page.items]


def node(place: WorkerContext, host: str) -> Nodes:
    return Nodes(replace(with_options(place, host_name=host), lease=Lease()))


def of_kind(chosen: list[Duty]) -> Nodes:
    (found,) = [duty for duty in chosen if isinstance(duty, Nodes)]
    return found


async def test_process_says_what_it_runs_until_it_ends(
    app: App, database: Database, clock: MovedClock
) -> None:
    @app.task("tests.note")
    async def note() -> None: ...

    place = WorkerContext(database, runtime=app.runtime(database))
    duty = of_kind(duties(place, ["nodes", "tasks", "timers"]))
    await duty.run_once()
    clock.advance("30s")
    await duty.run_once()
    (found,) = (await app.runtime(database).org(ORG, OPERATOR).operations.nodes()).items
    assert (found.id, found.pid) == (place.lease.worker_id, os.getpid())
    assert (found.duties, found.task_types) == (["nodes", "timers", "tasks"], ["tests.note"])
    assert (found.seen_at - found.started_at).total_seconds() == 30
    await finish(duty)
    assert await fleet(app, database) == []


async def test_process_that_says_nothing_is_lost_then_forgotten_and_may_come_back(
    app: App, database: Database, place: WorkerContext, clock: MovedClock
) -> None:
    first, second = node(place, "a"), node(place, "b")
    for duty in (first, second):
        await duty.run_once()
    clock.advance("44s")
    await second.run_once()
    assert await fleet(app, database) == [("a", "alive"), ("b", "alive")]
    clock.advance("1s")
    assert await fleet(app, database) == [("a", "lost"), ("b", "alive")]
    await first.run_once()
    assert await fleet(app, database) == [("a", "alive"), ("b", "alive")]
    clock.advance("25h")
    await second.run_once()
    assert await fleet(app, database) == [("b", "alive")]
    await first.run_once()
    assert await fleet(app, database) == [("a", "alive"), ("b", "alive")], "it was suspended, and goes on"


async def test_one_statement_says_it(place: WorkerContext, statement_counter: StatementCounter) -> None:
    duty = Nodes(place)
    await duty.run_once()
    statement_counter.clear()
    await duty.run_once()
    assert len(statement_counter) <= 3, "one between BEGIN and COMMIT"


async def test_processes_are_shown_page_by_page(app: App, database: Database, place: WorkerContext) -> None:
    for host in "cab":
        await node(place, host).run_once()
    commands = app.runtime(database).org(ORG, OPERATOR).operations
    first = await commands.nodes(limit=2)
    rest = await commands.nodes(limit=2, cursor=first.next)
    assert [node.host for node in (*first.items, *rest.items)] == ["a", "b", "c"]
    assert rest.next is None


async def test_real_worker_and_server_are_seen_and_leave(database: Database) -> None:
    """Also a worker that was given one duty alone; one that was killed stays until it is taken for lost."""
    variables = {"ASSENT_WORKER_HOST_NAME": "here"}
    app = ("--app", "tests.processes.application:app")
    process = await start_command(database.url, "serve", *app, "--port", "0", **variables)
    server = RunningCommand(process)
    try:
        await server.line("server started")
        async with worker(database.url, "--only", "timers", **variables) as timing:
            rows = await _seen(database, 2)
            assert {row["pid"]: (row["serves"], row["duties"]) for row in rows} == {
                server.pid: (True, []),
                timing.pid: (False, ["timers"]),
            }
            timing.send(signal.SIGTERM)
            assert await timing.ended() == 0
        (left,) = await _seen(database, 1)
        assert left["pid"] == server.pid
        server.send(signal.SIGTERM)
        assert await server.ended() == 0
        assert await _seen(database, 0) == []
    finally:
        if server.runs:
            await server.kill()


async def _seen(database: Database, number: int) -> list[Any]:
    rows: list[Any] = []
    for _ in range(1_000):
        rows = await fetch(database, "SELECT pid, serves, duties FROM assent.nodes")
        if len(rows) == number:
            break
    return json.loads(json.dumps([dict(row) for row in rows]))  # type: ignore[no-any-return]


async def test_attempt_says_which_node_made_it_also_one_that_was_lost(app: App, database: Database) -> None:
    @app.task("tests.note")
    async def note() -> None: ...

    acme = app.runtime(database).org(ORG, OPERATOR)
    task_id = (await app.runtime(database).org(ORG).tasks.submit("tests.note")).id
    lost, other = (TasksWorker(app, database) for _ in range(2))
    nodes = [of_kind(duties(one.place, ["nodes"])) for one in (lost, other)]
    for each in nodes:
        await each.run_once()
    assert len(await lost.claim(1)) == 1
    known = {node.id for node in (await acme.operations.nodes()).items}
    await other.sweep()
    await other.work()
    made = [one.worker_id for one in (await app.runtime(database).org(ORG).tasks.get(task_id)).tried]
    assert made == [lost.place.lease.worker_id, other.place.lease.worker_id]
    assert set(made) == known
    await other.duty.finish()
