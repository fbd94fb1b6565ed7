"""Claims whose answer was lost: COMMIT was carried out, and the worker that claimed does not know.

What it claimed is recorded as its own. It neither stands still nor counts as an attempt, and nothing is given up as
sent that never left.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from assent.app import App
from assent.effects.settings import SendingSettings
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import Duty, WorkerContext
from assent.worker.effects import Effects
from assent.worker.results import Results
from assent.worker.tasks import Tasks
from tests.faults.proxy import COMMIT, Fault, Proxy
from tests.plain_sql import WAIT_MAX_S
from tests.postgres import SETTINGS
from tests.receiver import Receiver, receiving
from tests.workers import LOCAL, EffectsWorker, ResultsWorker
from tests.world import ORG, publish_vendor, publish_webhook, rows

CLAIM = "claim_jobs"


class Faulty:
    """One worker whose connections go through a proxy, and jobs for it, which are submitted past the proxy."""

    def __init__(self, proxy: Proxy, behind: Database, database: Database, receiver: Receiver) -> None:
        self.app = App()
        self.ran: list[str] = []
        self.began = 0
        self.release = asyncio.Event()
        self.app.task("tests.note")(self._note)
        self.app.task("tests.wait")(self._wait)
        self.proxy, self.database, self.receiver = proxy, database, receiver
        self.runtime = self.app.runtime(database)
        self.place = WorkerContext(behind, runtime=self.app.runtime(behind), sending=SendingSettings(LOCAL))

    async def _note(self, what: str = "") -> None:
        self.ran.append(what)

    async def _wait(self) -> None:
        self.began += 1
        await self.release.wait()

    async def submit(self, kind: str) -> None:
        if kind == "tasks":
            await self.runtime.org(ORG).tasks.submit("tests.note", {"what": "a"})
        elif kind == "effects":
            await publish_webhook(self.database, on_ambiguous="give_up", **{"await": True})
            await EffectsWorker(WorkerContext(self.database, runtime=self.runtime)).start(
                "telling", url=self.receiver.url, order=7
            )
        else:
            results_worker = ResultsWorker(self.runtime, self.database, self.database.clock)  # type: ignore[arg-type]
            await publish_vendor(self.database)
            await results_worker.start()
            await results_worker.push((await results_worker.request())["id"])

    async def row(self, kind: str) -> dict[str, Any]:
        (found,) = [row for row in await rows(self.database, "jobs") if f"{row['kind']}s" == kind]
        return found

    async def lose_claim(self, duty: Duty, kind: str) -> None:
        """Have a run claim, and cut its connection when the server has committed and not yet said so."""
        claiming = self.proxy.arm(Fault(CLAIM, moment="after", action="hold"))
        running = asyncio.create_task(duty.run_once())
        async with asyncio.timeout(WAIT_MAX_S):
            await claiming.wait()
            lost = self.proxy.arm(Fault(COMMIT, moment="after", action="cut"))
            claiming.release()
            await lost.wait()
            with suppress(Exception):
                await running
        self.proxy.disarm()

    async def run_until(self, duty: Duty, has_happened: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(WAIT_MAX_S):
            while not await has_happened():
                await duty.run_once()


DUTIES: dict[str, type[Duty]] = {"tasks": Tasks, "effects": Effects, "results": Results}


@pytest.fixture
async def faulty(database: Database, database_url: str, clock: MovedClock) -> AsyncIterator[Faulty]:
    async with Proxy.before(database_url) as proxy:
        behind = await Database.open(proxy.url, settings=SETTINGS, clock=clock)
        with receiving() as receiver:
            yield Faulty(proxy, behind, database, receiver)
        await behind.close()


@pytest.mark.parametrize("kind", DUTIES)
async def test_job_of_a_claim_whose_answer_was_lost_runs_without_an_attempt_less(
    faulty: Faulty, kind: str
) -> None:
    """Its worker is alive, so that no lease ends; and the clock stands still."""
    await faulty.submit(kind)
    duty = DUTIES[kind](faulty.place)
    await faulty.lose_claim(duty, kind)

    async def has_ended() -> bool:
        return bool((await faulty.row(kind))["status"] == "done")

    await faulty.run_until(duty, has_ended)
    assert (await faulty.row(kind))["attempts"] == 1
    if kind == "effects":
        assert len(faulty.receiver.received) == 1, "what never left was sent, once"
    if kind == "tasks":
        assert faulty.ran == ["a"]


async def test_worker_with_other_work_does_not_keep_what_it_does_not_know_of(faulty: Faulty) -> None:
    duty = Tasks(faulty.place)
    await faulty.runtime.org(ORG).tasks.submit("tests.wait")
    await duty.run_once()
    await faulty.runtime.org(ORG).tasks.submit("tests.note", {"what": "b"})
    await faulty.lose_claim(duty, "tasks")

    async def has_run() -> bool:
        return faulty.ran == ["b"]

    await faulty.run_until(duty, has_run)
    faulty.release.set()
    await duty.finish()
    found = {row["lane"]: (row["status"], row["attempts"]) for row in await rows(faulty.database, "jobs")}
    assert found == {"tests.wait": ("done", 1), "tests.note": ("done", 1)}


async def test_worker_that_ends_gives_back_what_it_does_not_know_of(faulty: Faulty) -> None:
    await faulty.submit("effects")
    duty = Effects(faulty.place)
    await faulty.lose_claim(duty, "effects")
    await duty.finish()
    found = await faulty.row("effects")
    assert (found["status"], found["attempts"], found["losses"]) == ("queued", 0, 0)
    assert await rows(faulty.database, "worker_leases") == []


async def test_claim_that_is_still_being_answered_is_not_given_back(faulty: Faulty) -> None:
    """Another lane of the worker renews the lease while the first has committed its claim and does not know yet."""
    duty = Tasks(faulty.place)
    await faulty.runtime.org(ORG).tasks.submit("tests.note", {"what": "c"})
    claiming = faulty.proxy.arm(Fault(CLAIM, moment="after", action="hold"))
    first = asyncio.create_task(duty.run_once())
    async with asyncio.timeout(WAIT_MAX_S):
        await claiming.wait()
        answer = faulty.proxy.arm(Fault(COMMIT, moment="after", action="hold"))
        claiming.release()
        await answer.wait()
        assert (await faulty.row("tasks"))["status"] == "running"
        duty._jobs.lease.renewals += (
            1  # as another duty of the process does: what is recorded is to be compared
        )
        await duty.run_once()
        assert (await faulty.row("tasks"))["status"] == "running"
        answer.release()
        await first
        await duty.finish()
    assert faulty.ran == ["c"]
    found = await faulty.row("tasks")
    assert (found["status"], found["attempts"]) == ("done", 1)


async def test_slow_comparison_does_not_give_back_what_another_lane_claims_meanwhile(faulty: Faulty) -> None:
    """Two lanes compare at once; one has its answer and could claim, the other has not looked at the database yet."""
    duty = Tasks(faulty.place)
    await faulty.runtime.org(ORG).tasks.submit("tests.wait")
    duty._jobs.doubt()
    comparing = faulty.proxy.arm(Fault("give_back_unknown", moment="before", action="hold"))
    slow = asyncio.create_task(duty.run_once())
    async with asyncio.timeout(WAIT_MAX_S):
        await comparing.wait()
        quick = asyncio.create_task(duty.run_once())
        await asyncio.wait({quick}, timeout=1)
        quicker = asyncio.create_task(duty.run_once())
        await asyncio.wait({quicker}, timeout=1)
        comparing.release()
        await asyncio.gather(slow, quick, quicker)
        faulty.release.set()

        async def has_ended() -> bool:
            return bool((await faulty.row("tasks"))["status"] == "done")

        await faulty.run_until(duty, has_ended)
        await duty.finish()
    assert faulty.began == 1, "it was given back while it ran, and ran once more under the same attempt"
    assert (await faulty.row("tasks"))["attempts"] == 1
