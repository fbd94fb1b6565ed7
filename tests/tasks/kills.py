"""Workers that are killed again and again while they run tasks: `make kills TASKS=10000`; writes docs/proof.md.

Three workers run tasks that write outside of every transaction, as a call of another system does, and half of them also
together with their completion. One of the three is killed with SIGKILL as soon as it is in the middle of a task, and
another process takes its place. At the end every call must be that of a completion, or of an attempt that was counted
as lost; and what was written with a completion must be there once.
"""

import argparse
import asyncio
import os
import platform
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

import psutil

import assent
from assent.runtime import Runtime
from assent.store.database import Connection, Database
from assent.store.table_grants import grant_tables
from tests.faults.chaos.__main__ import PROOF, commit_of, record_between
from tests.postgres import SETTINGS, Databases, folder_of_this_run, server_at
from tests.processes.fleet import app
from tests.processes.spawn import ROOT
from tests.world import ORG

BEGIN: Final = "<!-- kills: begin (written by `make kills`) -->"
END: Final = "<!-- kills: end -->"
WORKERS: Final = 3
KILLS: Final = 60
"""How often a worker is killed, at the most: evenly over the tasks, and only in the middle of one."""
FINISH_MAX_S: Final = 600.0
VARIABLES: Final = {
    "ASSENT_WORKER_LEASE_MS": "1000",
    "ASSENT_WORKER_RESCUE_INTERVAL_MS": "100",
    "ASSENT_WORKER_TASKS_INTERVAL_MS": "100",
}
"""A worker is taken for gone after a second, and not after a minute."""

TABLES: Final = """
CREATE TABLE public.calls (task_id uuid NOT NULL, attempt integer NOT NULL, pid integer NOT NULL);
CREATE INDEX calls_by_worker ON public.calls (pid);
CREATE TABLE public.bookings (task_id uuid NOT NULL);
"""
DONE: Final = "SELECT count(*) FROM assent.jobs WHERE org_id = 'acme' AND status = 'done'"
IN_THE_MIDDLE: Final = """
SELECT EXISTS (SELECT FROM public.calls AS c
                WHERE c.pid = $1 AND NOT EXISTS (SELECT FROM assent.job_attempts AS a
                  WHERE a.org_id = 'acme' AND a.job_id = c.task_id AND a.attempt = c.attempt))
"""
COUNTED: Final = """
WITH attempts AS (
  SELECT a.outcome, count(c.attempt) AS calls
    FROM assent.job_attempts AS a LEFT JOIN public.calls AS c ON (c.task_id, c.attempt) = (a.job_id, a.attempt)
   WHERE a.org_id = 'acme' GROUP BY a.job_id, a.attempt, a.outcome
)
SELECT (SELECT count(*) FROM assent.jobs WHERE org_id = 'acme') AS tasks,
       (SELECT count(*) FROM assent.jobs WHERE org_id = 'acme' AND status = 'done') AS done,
       (SELECT sum(attempts) FROM assent.jobs WHERE org_id = 'acme') AS counted_attempts,
       (SELECT count(*) FROM attempts) AS attempts,
       (SELECT count(*) FROM attempts WHERE outcome = 'done') AS completions,
       (SELECT count(*) FROM attempts WHERE outcome = 'done' AND calls <> 1) AS completions_without_one_call,
       (SELECT count(*) FROM attempts WHERE outcome = 'lost') AS lost,
       (SELECT count(*) FROM attempts WHERE outcome = 'lost' AND calls = 1) AS lost_after_the_call,
       (SELECT count(*) FROM attempts WHERE outcome NOT IN ('done', 'lost') OR calls > 1) AS other_attempts,
       (SELECT count(*) FROM public.calls) AS calls,
       (SELECT count(*) FROM public.bookings) AS bookings,
       (SELECT count(DISTINCT task_id) FROM public.bookings) AS booked_tasks
"""


@dataclass(frozen=True)
class KillsOutcome:
    """One run: how often a worker was killed, and what was counted at the end."""

    seed: int
    kills: int
    seconds: float
    counts: dict[str, int]
    postgres: str

    @property
    def wrong(self) -> list[str]:
        """Return what is not as it must be."""
        n = self.counts
        rules = {
            "every task is done": n["done"] == n["completions"] == n["tasks"],
            "calls are completions and counted retries": n["calls"]
            == n["completions"] + n["lost_after_the_call"],
            "each completion has made one call": n["completions_without_one_call"] == 0,
            "each attempt is counted, as done or as lost": n["counted_attempts"] == n["attempts"],
            "no attempt has another end, or two calls": n["other_attempts"] == 0,
            "rows of completions are there once": n["bookings"] == n["booked_tasks"] == n["tasks"] // 2,
        }
        return [rule for rule, holds in rules.items() if not holds]


class WorkersToKill:
    """The workers, by their process ids."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pids: list[int] = []

    async def add(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"one more\n")
        self.pids.append(int(await self._process.stdout.readline()))

    def kill(self, pid: int) -> None:
        self.pids.remove(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    async def close(self) -> None:
        for pid in list(self.pids):
            self.kill(pid)
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def fleet_on(url: str) -> AsyncIterator[WorkersToKill]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.processes.fleet", url),
        cwd=ROOT,
        env={**os.environ, **VARIABLES},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    fleet = WorkersToKill(process)
    try:
        for _ in range(WORKERS):
            await fleet.add()
        yield fleet
    finally:
        await fleet.close()


async def run(url: str, tasks: int, seed: int, kills_max: int = KILLS) -> KillsOutcome:
    """Run so many tasks while workers are killed, and count."""
    random, kills = Random(seed), 0  # noqa: S311
    database = await Database.open(url, settings=SETTINGS)
    try:
        async with database.transaction(None) as connection:
            await connection.execute(TABLES)
            await grant_tables(connection, app.grants)
        await submit(app.runtime(database), tasks)
        began_s = time.monotonic()
        async with asyncio.timeout(FINISH_MAX_S), fleet_on(url) as fleet, observing(database) as connection:
            while (done := await connection.fetchval(DONE)) < tasks:
                victim = random.choice(fleet.pids)
                is_time = done >= kills * tasks // kills_max
                if is_time and await connection.fetchval(IN_THE_MIDDLE, victim):
                    fleet.kill(victim)
                    await fleet.add()
                    kills += 1
                await asyncio.sleep(0.005)
            seconds = time.monotonic() - began_s
            counts = {name: int(number) for name, number in (await connection.fetchrow(COUNTED)).items()}
            version: str = await connection.fetchval("SHOW server_version")
        return KillsOutcome(seed, kills, seconds, counts, version)
    finally:
        await database.close()


@asynccontextmanager
async def observing(database: Database) -> AsyncIterator[Connection]:
    """Give a connection that sees what is committed at each of its statements."""
    async with database.transaction(None) as connection:
        yield connection


async def submit(runtime: Runtime, tasks: int) -> None:
    kinds = ("kills.call", "kills.book")
    wanted = [assent.NewTask(kinds[number % 2]) for number in range(tasks)]
    for first in range(0, tasks, 1_000):
        await runtime.org(ORG).tasks.submit_many(wanted[first : first + 1_000])


def report(outcome: KillsOutcome, commit: str, when: datetime) -> str:
    """Return the section of docs/proof.md about a run."""
    counts, wrong = outcome.counts, outcome.wrong
    memory_gb = psutil.virtual_memory().total / 1024**3
    machine = (
        f"{os.cpu_count()} cores, {memory_gb:.0f} GB, {platform.system()}, Python {platform.python_version()}"
    )
    verdict = "Nothing was wrong." if not wrong else f"Wrong: {'; '.join(wrong)}."
    return "\n".join(
        [
            f"{counts['tasks']} tasks in {outcome.seconds:.0f} s, seed {outcome.seed}, {when:%Y-%m-%d %H:%M} UTC, "
            f"commit `{commit}`; {machine}, PostgreSQL {outcome.postgres}, the machine busy with other work. {verdict}",
            "",
            "| | |",
            "|---|---|",
            f"| workers killed | {outcome.kills} |",
            f"| tasks done | {counts['done']} |",
            f"| calls of the outside system | {counts['calls']} |",
            f"| … by attempts that completed | {counts['completions']} |",
            f"| … by attempts that were lost after their call, and counted | {counts['lost_after_the_call']} |",
            f"| attempts that were lost before their call | {counts['lost'] - counts['lost_after_the_call']} |",
            f"| rows that were written with a completion | {counts['bookings']} |",
        ]
    )


async def on_own_server(tasks: int, seed: int) -> KillsOutcome:
    """Run on a PostgreSQL of its own."""
    with folder_of_this_run() as folder, server_at(folder / "server") as url:
        async with (
            Databases.on(url) as databases,
            databases.fresh(await databases.ensure_template()) as fresh,
        ):
            return await run(fresh, tasks, seed)


def record(section: str, path: Path = PROOF) -> None:
    record_between(BEGIN, END, section, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="the same workers are chosen")
    parser.add_argument("--record", action="store_true", help="write the result to docs/proof.md")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4))
    outcome = asyncio.run(on_own_server(given.tasks, seed))
    section = report(outcome, commit_of(), datetime.now(UTC))
    print(section)
    if given.record:
        record(section)
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
