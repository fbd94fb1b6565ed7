"""An upgrade while people work: processes of the old and of the new release share the database, and may restart.

The present code is the old release. The new one is a copy with a migration more, which adds to every table that is used
most. What callers got is compared with the tables, and with what a receiver got.
"""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from assent.store.clock import SYSTEM_CLOCK
from assent.store.database import Database
from assent.store.migrate import code_version
from tests.authored import END, arrows, call
from tests.http.process import server, start
from tests.processes.application import calls, keep_calls
from tests.processes.commands import run_worker, worker
from tests.receiver import Receiver, receiving
from tests.upgrades.releases import ReleaseFolder
from tests.world import found_acme, publish_steps, rows

pytestmark = [pytest.mark.long, pytest.mark.without_twin("migrations of the test change every row")]
APP = ("--app", "tests.processes.application:app")
WAIT_MAX_S = 60
HOT_TABLES = (
    *("workflow_instances", "workflow_step_executions", "workflow_events_outbox", "workflow_step_receipts"),
    *("effects", "workflow_outbox_receipts", "jobs", "members", "orgs", "audit_log"),
)
ADDS_COLUMNS = "\n".join(
    f"ALTER TABLE assent.{table} ADD COLUMN of_the_next_release text DEFAULT 'x';" for table in HOT_TABLES
)
COMPATIBLE = f"-- oldest-code: {code_version().version:04}\n{ADDS_COLUMNS}"
INCOMPATIBLE = "ALTER TABLE assent.orgs DROP COLUMN of_the_next_release;"
LOCAL = {"ASSENT_EFFECTS_ALLOW": "127.0.0.0/8"}


@dataclass
class StartingLoad:
    """Callers that start instances one after the other, at whichever server says that it is ready."""

    servers: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    answered: dict[int, str] = field(default_factory=dict)
    """Number of the order → the instance that its caller was given."""
    _number: int = 0
    _answer: asyncio.Condition = field(default_factory=asyncio.Condition)

    @asynccontextmanager
    async def running(self, callers: int) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(self._call(stop))
            yield
            stop.set()

    async def more(self, number: int) -> None:
        """Wait until so many more orders were answered."""
        wanted = len(self.answered) + number
        async with asyncio.timeout(WAIT_MAX_S), self._answer:
            await self._answer.wait_for(lambda: len(self.answered) >= wanted)

    async def _call(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._number += 1
            number = self._number
            async with asyncio.timeout(WAIT_MAX_S):
                while number not in self.answered:
                    await self._try(number)

    async def _note(self, number: int, instance: str) -> None:
        async with self._answer:
            self.answered[number] = instance
            self._answer.notify_all()

    async def _try(self, number: int) -> None:
        for client in list(self.servers.values()):
            try:
                if (await client.get("/readyz")).status_code != 200:
                    continue
                headers = {"Idempotency-Key": f"order-{number}"}
                answer = await client.post("/api/flows/orders/start", json={"n": number}, headers=headers)
            except httpx.HTTPError:
                continue  # the server went away; the key makes the next try the same command
            assert answer.status_code in (201, 503), answer.text
            if answer.status_code == 201:
                await self._note(number, answer.json()["id"])
                await _read(client, answer.json()["id"])
                return
        await asyncio.sleep(0)  # none is ready: let the others get on


async def _read(client: httpx.AsyncClient, instance: str) -> None:
    """Look at what was started, by every page about it; the server may be on its way out."""
    for page in ("", "/steps"):
        with suppress(httpx.HTTPError):
            seen = await client.get(f"/api/instances/{instance}{page}")
            assert seen.status_code in (200, 503), seen.text


@pytest.fixture
async def release(tmp_path: Path) -> ReleaseFolder:
    return await asyncio.to_thread(ReleaseFolder.make, tmp_path / "compatible", COMPATIBLE)


@pytest.fixture
async def live(database_url: str) -> AsyncIterator[Database]:
    """The test's database, at the time of the real clock, as the processes see it."""
    database = await Database.open(database_url, clock=SYSTEM_CLOCK)
    yield database
    await database.close()


@pytest.fixture
async def shop(live: Database) -> AsyncIterator[Receiver]:
    await found_acme(live)
    await keep_calls(live)
    with receiving() as receiver:
        steps = [
            call("mark", "tests.mark", input={"what": "workflow.n"}),
            {"id": "wait", "type": "wait", "for": "1s"},
            {"id": "tell", "type": "webhook_out", "url": receiver.url, "body": {"n": "{workflow.n}"}},
            END,
        ]
        await publish_steps(live, "orders", steps, arrows("mark", "wait", "tell", "end"))
        yield receiver


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


async def readiness(port: int) -> tuple[int, str]:
    """Return what a worker says to an orchestrator."""
    async with httpx.AsyncClient(timeout=WAIT_MAX_S) as client:
        answer = await client.get(f"http://127.0.0.1:{port}/readyz")
    return answer.status_code, answer.text


async def stop(process: Any) -> None:
    process.send(signal.SIGTERM)
    assert await process.ended() == 0


UNFINISHED = """
SELECT count(*) FROM assent.workflow_instances i
  LEFT JOIN assent.effects e ON e.org_id = i.org_id AND e.instance_id = i.id
  LEFT JOIN assent.jobs j ON j.org_id = e.org_id AND j.id = e.id
 WHERE i.status = 'running' OR j.status IS DISTINCT FROM 'done'
"""


async def wait_until_done(live: Database) -> None:
    async with asyncio.timeout(WAIT_MAX_S), live.glance() as connection:
        while await connection.fetchval(UNFINISHED):
            await connection.execute("SELECT pg_sleep(0.1)")


async def assert_nothing_lost(live: Database, load: StartingLoad, receiver: Receiver) -> None:
    """Each order that was answered is one instance, ran once, and was sent under one key; and there is nothing else."""
    await wait_until_done(live)
    instances = {str(row["id"]): row["status"] for row in await rows(live, "workflow_instances")}
    assert instances == dict.fromkeys(load.answered.values(), "completed")
    assert len(set(load.answered.values())) == len(load.answered)
    assert sorted(map(int, await calls(live))) == sorted(load.answered)
    assert {received.json["n"] for received in receiver.received} == load.answered.keys()
    assert len(receiver.keys) == len(load.answered)


@pytest.mark.timeout(400)  # eight processes start, one after the other, on machines that do other things
async def test_old_and_new_processes_share_the_database_and_nothing_is_lost(
    live: Database, shop: Receiver, release: ReleaseFolder
) -> None:
    load = StartingLoad()
    url, new = live.url, release.variables
    async with AsyncExitStack() as processes:
        enter = processes.enter_async_context
        old_server = await enter(server(url, *APP))
        port = free_port()
        old_worker = await enter(worker(url, *APP, **LOCAL, ASSENT_METRICS_PORT=str(port)))
        load.servers["old"] = await enter(old_server.client("ann"))
        async with load.running(callers=3):
            await load.more(10)
            migrated = await asyncio.to_thread(release.run, "migrate", url=url)
            assert (migrated.returncode, "applied" in migrated.stdout) == (0, True), migrated.stderr
            await load.more(10)

            # The old release goes on, and its processes may restart.
            assert (await load.servers["old"].get("/readyz")).status_code == 200
            assert await readiness(port) == (200, "ready\n")
            await stop(old_worker)
            old_worker = await enter(worker(url, *APP, **LOCAL))
            old_server, before = await enter(server(url, *APP)), old_server
            load.servers["old"] = await enter(old_server.client("ann"))
            await stop(before)
            await load.more(10)

            # The new release takes over, one process after the other.
            new_server = await enter(server(url, *APP, **new))
            load.servers["new"] = await enter(new_server.client("ann"))
            new_worker = await enter(worker(url, *APP, **new, **LOCAL))
            await load.more(10)
            del load.servers["old"]
            await stop(old_server)
            await stop(old_worker)
            await load.more(10)
        await assert_nothing_lost(live, load, shop)
        await stop(new_worker)


async def test_old_release_migrates_nothing_and_says_so(database_url: str, release: ReleaseFolder) -> None:
    assert (await asyncio.to_thread(release.run, "migrate", url=database_url)).returncode == 0
    again = await asyncio.to_thread(ReleaseFolder.installed().run, "migrate", url=database_url)
    assert again.returncode == 0, again.stderr
    name = f"{code_version().version + 1:04}_further"
    assert again.stdout == (
        f"newer    {name}, of a later version, which this one can use\n"
        f"up to date: {code_version().version} migrations\n"
    )


@pytest.mark.timeout(400)
async def test_old_release_refuses_a_schema_that_it_cannot_use(
    live: Database, shop: Receiver, release: ReleaseFolder, tmp_path: Path
) -> None:
    newest = await asyncio.to_thread(ReleaseFolder.make, tmp_path / "newest", COMPATIBLE, INCOMPATIBLE)
    known = code_version().version
    serving = await start(live.url, *APP, "--port", "0", **release.variables)
    _, said = await serving.communicate()
    assert (serving.returncode, b"Run `assent migrate` first" in said) == (1, True)
    assert (await asyncio.to_thread(release.run, "migrate", url=live.url)).returncode == 0
    port = free_port()
    async with (
        server(live.url, *APP) as old,
        server(live.url, *APP, **release.variables) as too_old,
        worker(live.url, *APP, ASSENT_METRICS_PORT=str(port)),
    ):
        assert (await asyncio.to_thread(newest.run, "migrate", url=live.url)).returncode == 0
        for one, version in ((old, known), (too_old, known + 1)):
            async with one.client("ann") as client:
                refused = await client.get("/readyz")
            assert refused.status_code == 503
            assert refused.json()["detail"] == (
                f"the schema is for programs from version {known + 2} on, this is version {version}"
            )
            assert refused.json()["hint"] == "install the version that migrated the database"
        assert await readiness(port) == (
            503,
            f"the schema is for programs from version {known + 2} on, this is version {known}; "
            "install the version that migrated the database\n",
        )
    for variables in ({}, release.variables):
        code, _, error = await run_worker(live.url, *APP, **variables)
        assert code == 1
        assert f"The database has migration {known + 2:04}_further of a newer version of Assent." in error
        assert "Traceback" not in error
    serving = await start(live.url, *APP, "--port", "0")
    _, said = await serving.communicate()
    assert (serving.returncode, b"Install the version that made it, or a newer one" in said) == (1, True)
