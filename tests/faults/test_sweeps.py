"""Every commit of the duties that keep house, with its link cut or frozen: what is swept is swept once.

Each duty finds a company whose work lies a year back: instances that nothing moves, rows in a default partition,
receipts and finished rows to prune, steps to compact, instances to delete and documents to erase, incidents to post,
a digest to send, indexes to build. A run that ends with an error has reported nothing; the next ones finish what is
left, and the tables are those of a worker that was never disturbed.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest

from assent.compiler.source import Source
from assent.definitions.publish import publish_sources
from assent.model.actor import SYSTEM
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import Duty, DutyRun, WorkerContext
from assent.worker.loop import run_duty
from assent.worker.options import Options
from assent.worker.supervisor import DUTIES
from tests.faults.company import ORG, Acme
from tests.faults.points import ANSWER_MAX_S, SHORT, Laboratory, Point, Trial, complaints_of
from tests.faults.tables import TableChange, Tables
from tests.faults.test_duties import WAITING_FOR_WORK, name_of
from tests.faults.test_python import person
from tests.http.application import app
from tests.postgres import SETTINGS, START, Databases, past_the_guards
from tests.rows import insert_event
from tests.world import EXPENSE

NOW: Final = START + timedelta(days=400)
"""When the duties run: everything that acme has ended is older than what is kept."""
UNPREPARED: Final = START + timedelta(days=200)
"""A day of a month for which no partition was made."""
OPTIONS: Final = Options(
    stuck_repair="force_fail",
    partitions_months_ahead=1,
    prune_instances_max=3,
    compact_steps_max=20,
    retention_instances_max=1,
)
RUNS_MAX: Final = 60
ELSEWHERE: Final = {"streams", "blobs"}
"""Duties whose commits are tried with their brokers, in `tests/transports`, and one that tries again what it claimed
when a lease has ended, in `tests/documents/test_files.py`."""
SWEEPS: Final = {kind.name: kind for kind in DUTIES if kind.name not in WAITING_FOR_WORK | ELSEWHERE}

INDEXED_EXPENSE: Final = Source(
    "expense.yaml",
    {
        **EXPENSE,
        "version": 2,
        "fields": {**EXPENSE["fields"], "title": {**EXPENSE["fields"]["title"], "index": True}},
    },
)
_IS_BUILT: Final = "SELECT coalesce(bool_and(built), true) FROM assent.entity_indexes"

_PARTITIONS: Final = """
SELECT inhrelid::regclass::text AS name FROM pg_inherits
 WHERE inhparent IN ('assent.workflow_step_executions'::regclass, 'assent.workflow_events_outbox'::regclass)
"""
_IN_DEFAULT: Final = "SELECT count(*) FROM assent.workflow_events_outbox_default"


@pytest.fixture(scope="module")
async def neglected(databases: Databases, acme: Acme) -> AsyncIterator[Laboratory]:
    """Copies of acme a year later, with something for every sweep."""
    async with databases.fresh(acme.template) as url:
        await _neglect(url, acme)
        # Partitions are made by one statement, which may take a while on a busy machine.
        patient = SHORT.replace(statement_timeout_ms=8_000, lock_timeout_ms=7_000)
        yield Laboratory(databases, name_of(url), patient, NOW)


async def _neglect(url: str, acme: Acme) -> None:
    database = await Database.open(url, settings=SETTINGS, clock=MovedClock(START + timedelta(days=1)))
    try:
        runtime = app.runtime(database)
        for _ in range(2):
            ended = await runtime.org(ORG, SYSTEM).instances.start("pair")
            await runtime.org(ORG, SYSTEM).instances.cancel(ended.id, "not needed")
        documents = runtime.org(ORG, SYSTEM).documents
        passport = await documents.create("passport", "c-old")
        await documents.add_version(passport.id, structured_data={"number": "C01X"})
        await runtime.org(ORG, person("fin")).preferences.change({"mails": "daily", "digest_hour": 0})
        await runtime.org(ORG, person("alice")).entities.mutate(
            "expense.create", {"title": "Taxi", "total": 7}
        )
        async with database.transaction(None) as connection:
            await publish_sources(connection, "*", [INDEXED_EXPENSE], SYSTEM, database.clock.now())
            await insert_event(connection, org_id=ORG, created_at=UNPREPARED)
            await connection.execute(
                "UPDATE assent.orgs SET settings = settings || $2 WHERE org_id = $1",
                ORG,
                {"retention_days": 30, "document_retention_days": 30},
            )
    finally:
        await database.close()
    async with past_the_guards(url) as connection:
        stuck = [UUID(acme.parts[name]) for name in ("survey_id", "split_id")]
        await connection.execute(
            "DELETE FROM assent.workflow_step_executions WHERE instance_id = ANY ($1) AND status = 'pending'",
            stuck,
        )


@dataclass
class Sweep:
    """One duty on one database, and what its runs reported."""

    duty: Duty
    url: str
    runs: list[DutyRun]

    @classmethod
    def on(cls, trial: Trial[Any], name: str) -> "Sweep":
        place = WorkerContext(trial.database, options=OPTIONS, runtime=app.runtime(trial.database))
        return cls(SWEEPS[name](place), trial.url, [])

    async def run(self) -> None:
        """Run the duty until it has nothing more to do, or fails."""
        for _ in range(RUNS_MAX):
            run = await self._run_once()
            if run.done.count or run.done.more or run.error is not None:
                self.runs.append(run)
            if run.error is not None or not run.done.more:
                return
        raise AssertionError(f"expected an end within {RUNS_MAX} runs")

    async def _run_once(self) -> DutyRun:
        """Indexes are built when all older transactions of the server have ended, those of other tests included."""
        while True:
            run = await run_duty(self.duty, ANSWER_MAX_S)
            is_waiting = self.duty.name == "indexes" and not await self._is_built()
            if run.error is not None or run.done.more or not is_waiting:
                return run
            await asyncio.sleep(0.01)

    async def _is_built(self) -> bool:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(self.url)
        try:
            return bool(await connection.fetchval(_IS_BUILT))
        finally:
            await connection.close()

    @property
    def has_failed(self) -> bool:
        return any(run.error is not None for run in self.runs)

    @property
    def reported(self) -> int:
        return sum(run.done.parts.get("repaired", run.done.count) for run in self.runs)


async def _look(trial: Trial[Any], before: frozenset[str]) -> TableChange:
    """What the tables say by now; a partition that was made is a change of its own."""
    change = (await Tables.read(trial.url)).since(trial.before)
    return replace(change, tables=change.tables | (await _places(trial.url) - before))


async def _places(url: str) -> frozenset[str]:
    """The partitions that there are, and whether the default one of events is empty."""
    connection: asyncpg.Connection[Any] = await asyncpg.connect(url)
    try:
        names = {row["name"] for row in await connection.fetch(_PARTITIONS)}
        in_default: int = await connection.fetchval(_IN_DEFAULT)
    finally:
        await connection.close()
    return frozenset(names | ({"nothing in the default partition"} if not in_default else set()))


@pytest.mark.parametrize("name", SWEEPS)
async def test_what_is_swept_is_swept_once_whatever_happens_to_a_commit(
    neglected: Laboratory, name: str
) -> None:
    async def sweep(trial: Trial[Sweep]) -> Sweep:
        found = Sweep.on(trial, name)
        await found.run()
        return found

    async with neglected.trial() as trial:
        before = await _places(trial.url)
        undisturbed = (await neglected.run(sweep, trial)).result
        order, done = list(trial.proxy.order), await _look(trial, before)
    assert undisturbed is not None
    assert not undisturbed.has_failed, undisturbed.runs
    assert undisturbed.reported > 0
    assert not done.is_nothing, "expected something to sweep"

    async def disturb(point: Point) -> tuple[TableChange, str | None]:
        async with neglected.trial(point) as trial:
            struck = (await neglected.run(sweep, trial)).result
            change = await _look(trial, before)
            assert struck is not None
            return change, await _complaint(trial, struck, change)

    async def _complaint(trial: Trial[Any], struck: Sweep, change: TableChange) -> str | None:
        if not struck.has_failed and struck.reported == undisturbed.reported and not change.is_like(done):
            return f"it reports {struck.reported}, and the tables say {change}"
        await struck.run()
        after = await _look(trial, before)
        if not after.is_like(done):
            return f"{struck.runs}; in the end {after}, expected {done}"
        if struck.reported > undisturbed.reported:
            return f"it reports {struck.reported} of {undisturbed.reported}"
        return None

    complaints = await complaints_of(disturb, order)
    assert not complaints, "\n".join(complaints)


def test_every_duty_is_disturbed() -> None:
    """Here, in `test_duties` or where `ELSEWHERE` says: a new duty needs its commits tried."""
    assert {kind.name for kind in DUTIES} - WAITING_FOR_WORK - ELSEWHERE == {
        "stuck",
        "unblock",
        "partitions",
        "prune",
        "compact",
        "retention",
        "names",
        "nodes",
        "schedules",
        "alerts",
        "digests",
        "indexes",
    }
