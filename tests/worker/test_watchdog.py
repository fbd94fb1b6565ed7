"""The watchdog: a run that does not end is cut off, said in one line, and seen by `/healthz` until a round finishes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from assent.app import App
from assent.http.app import create_app
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.model.problems import Invalid
from assent.store.database import Database
from assent.worker import loop as loop_module
from assent.worker.duty import RunResult, Schedule
from assent.worker.loop import RunTimeout
from assent.worker.options import Options
from assent.worker.probes import Probes, ProbeSettings
from assent.worker.supervisor import Supervisor, duties, require_connections
from tests.faults.proxy import Fault, Proxy
from tests.postgres import SETTINGS
from tests.worker.application import completing_context
from tests.workers import Runs, ScriptedDuty, with_options

LIMIT = Options(run_timeout_ms=200, backoff_min_ms=1, backoff_max_ms=1)


class Hanging(ScriptedDuty):
    """A duty whose runs hang until they are let go, cancelled or not."""

    def __init__(self, *, stubborn: int = 0) -> None:
        super().__init__(pace=Schedule(0.01), name="hanging")
        self.hangs = asyncio.Event()
        self.go = asyncio.Event()
        self.stubborn = stubborn
        """How many cancellations a run takes for an ordinary failure."""

    async def run_once(self) -> RunResult:
        while not self.go.is_set():
            self.hangs.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
                self.stubborn -= 1
        return RunResult()


@asynccontextmanager
async def supervised(
    database: Database, duty: ScriptedDuty, options: Options = LIMIT
) -> AsyncIterator[tuple[Supervisor, Runs]]:
    runs = Runs()
    supervisor = Supervisor(database, [duty], options, [runs])
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor, runs
    finally:
        supervisor.stop()
        await asyncio.wait_for(task, 20)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CANCEL_TIMEOUT_S", 0.05)


@pytest.mark.parametrize("stubborn", [0, 3])
async def test_run_that_does_not_end_is_cut_off_and_the_loop_goes_on(
    database: Database, caplog: pytest.LogCaptureFixture, stubborn: int
) -> None:
    duty = Hanging(stubborn=stubborn)
    async with supervised(database, duty) as (supervisor, runs):
        first = await runs.next()
        assert isinstance(first.error, RunTimeout)
        assert supervisor.overdue() == ["hanging"], "a run that was cut off has not finished"
        duty.go.set()
        while (await runs.next()).error is not None:
            pass
        assert supervisor.overdue() == []
    lines = [record for record in caplog.records if record.levelname == "ERROR"]
    assert {record.getMessage() for record in lines} == {"duty took too long, cutting off"}
    assert (lines[0].duty, lines[0].limit_s) == ("hanging", 0.2)  # type: ignore[attr-defined]
    assert lines[0].exc_info is None


async def test_error_of_a_run_is_a_finished_round(database: Database) -> None:
    """A database that is away is no reason to restart the process."""
    duty = ScriptedDuty([RuntimeError("away")] * 1_000, pace=Schedule(0.001))
    async with supervised(database, duty, LIMIT.replace(run_timeout_ms=50)) as (supervisor, runs):
        for _ in range(60):
            await runs.next()
            assert supervisor.overdue() == []


async def test_probe_says_503_with_the_name_while_a_duty_hangs(database: Database) -> None:
    duty = Hanging(stubborn=1_000_000)
    async with supervised(database, duty) as (supervisor, _):  # noqa: SIM117
        async with Probes(database, supervisor.overdue).serving(ProbeSettings(port=0)) as port:
            await duty.hangs.wait()
            answers = [await get(port)]
            assert (answers[0].status_code, answers[0].text) == (200, "alive\n")
            async with asyncio.timeout(20):
                while answers[-1].status_code == 200:
                    answers.append(await get(port))
            assert answers[-1].status_code == 503
            assert answers[-1].text == "not finished a round in time: hanging\n"
            duty.go.set()
            async with asyncio.timeout(20):
                while answers[-1].status_code == 503:
                    answers.append(await get(port))
            assert answers[-1].text == "alive\n"


async def get(port: int) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(f"http://127.0.0.1:{port}/healthz")


async def test_server_says_503_for_the_duties_of_its_own_worker(database: Database) -> None:
    duty = Hanging(stubborn=1_000_000)
    supervisor = Supervisor(database, [duty], LIMIT)
    settings = HttpSettings()
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        serving = Serving(create_app(App(), database, settings), listening, settings, supervisor)
        task = asyncio.create_task(serving.run())
        await duty.hangs.wait()
        async with asyncio.timeout(20):
            while (answer := await get(port)).status_code == 200:
                pass
        assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
        assert "hanging" in answer.json()["detail"]
        duty.go.set()
        async with asyncio.timeout(20):
            while (await get(port)).status_code == 503:
                pass
        serving.stop()
        assert await asyncio.wait_for(task, 20)


async def test_connections_of_a_run_that_was_cut_off_are_replaced(database: Database) -> None:
    """Frozen, without any deadline of the store: the watchdog alone gets the loop going again."""
    never_ms = 600_000
    settings = SETTINGS.replace(statement_timeout_ms=0, cancel_timeout_ms=never_ms, pool_connections_max=2)
    async with Proxy.before(database.url) as proxy:
        silenced = await Database.open(proxy.url, settings=settings)
        place = with_options(
            completing_context(silenced, LIMIT),
            timers_interval_ms=10,
            run_timeout_ms=300,
        )
        runs = Runs()
        fault = proxy.arm(Fault("claim_due_steps", moment="before", action="freeze"))
        supervisor = Supervisor(silenced, duties(place, ["timers"]), place.options, [runs])
        task = asyncio.create_task(supervisor.run())
        await fault.wait()
        assert isinstance((await runs.next()).error, RunTimeout)
        while (await runs.next()).error is not None:
            pass
        supervisor.stop()
        await asyncio.wait_for(task, 20)
        proxy.cut()
        await silenced.close()


def test_pool_that_is_too_small_for_the_lanes_is_said_at_start(database: Database) -> None:
    place = completing_context(database, Options())
    chosen = duties(place)
    require_connections(SETTINGS.replace(pool_connections_max=8), chosen, Options())
    with pytest.raises(Invalid) as caught:
        require_connections(SETTINGS.replace(pool_connections_max=7), chosen, Options())
    message = str(caught.value)
    assert "ASSENT_POOL_CONNECTIONS_MAX: expected at least 8 connections" in message
    assert "ASSENT_WORKER_EVENTS_LANES=2" in message
    assert "ASSENT_WORKER_TASKS_LANES=2" in message
    lanes = Options(events_lanes=1, tasks_lanes=1)
    require_connections(SETTINGS.replace(pool_connections_max=5), chosen, lanes)
    require_connections(SETTINGS.replace(pool_connections_max=1), duties(place, ["timers"]), Options())
    own = SETTINGS.replace(pool_connections_max=8, pool_task_transactions_max=4)
    with pytest.raises(Invalid, match="ASSENT_POOL_TASK_TRANSACTIONS_MAX=4"):
        require_connections(own, chosen, Options())
