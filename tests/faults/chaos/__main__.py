"""Chaos: `make chaos MINUTES=5`. Faults at random under mixed load, and a checker at the end; writes docs/proof.md."""

import argparse
import asyncio
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import asyncpg
import psutil

from tests.faults.chaos.check import Findings, check
from tests.faults.chaos.disorder import Disorder
from tests.faults.chaos.load import Load
from tests.faults.chaos.plant import ROOT, Plant
from tests.postgres import fastest_folder

PROOF: Final = ROOT / "docs" / "proof.md"
BEGIN: Final = "<!-- chaos: begin (written by `make chaos`) -->"
END: Final = "<!-- chaos: end -->"
FINISH_MAX_S: Final = 90.0
"""By when the clients have an answer to what they had begun when the last fault was over."""


@dataclass(frozen=True)
class ChaosOutcome:
    """One run."""

    seed: int
    seconds: float
    faults: Counter[str]
    statuses: Counter[str]
    findings: Findings
    postgres: str


async def run(seconds: float, seed: int, folder: Path) -> ChaosOutcome:
    """Break things for so many seconds, let them go on, and compare everything."""
    async with Plant.open(folder) as plant:
        load, disorder = Load(plant, seed), Disorder(plant, seed)
        clients = asyncio.create_task(load.run())
        breaking = asyncio.create_task(disorder.run())
        await asyncio.sleep(seconds)
        disorder.stop()
        await breaking
        await disorder.end()
        load.stop()
        unanswered = []
        try:
            await asyncio.wait_for(clients, FINISH_MAX_S)
        except TimeoutError:
            unanswered = [f"clients had no answer {FINISH_MAX_S:g} s after the last fault"]
        findings = await check(plant.database_url, load.intents, plant.receiver)
        await load.close()
        findings.wrong[:0] = unanswered
        connection: asyncpg.Connection[Any] = await asyncpg.connect(plant.database_url)
        version: str = await connection.fetchval("SHOW server_version")
        await connection.close()
        return ChaosOutcome(seed, seconds, disorder.done, load.statuses, findings, version)


def report(outcome: ChaosOutcome, commit: str, when: datetime) -> str:
    """Return the section of docs/proof.md about a run."""
    memory_gb = psutil.virtual_memory().total / 1024**3
    machine = (
        f"{os.cpu_count()} cores, {memory_gb:.0f} GB, {platform.system()}, Python {platform.python_version()}"
    )
    found = outcome.findings
    verdict = "Nothing was wrong." if not found.wrong else f"{len(found.wrong)} things were wrong:"
    return "\n".join(
        [
            f"{outcome.seconds:g} s, seed {outcome.seed}, {when:%Y-%m-%d %H:%M} UTC, commit `{commit}`; {machine}, "
            f"PostgreSQL {outcome.postgres}. {verdict}",
            *([""] if found.wrong else []),
            *(f"- {line}" for line in found.wrong[:50]),
            "",
            "| fault | times |",
            "|---|---|",
            *(f"| {name} | {number} |" for name, number in sorted(outcome.faults.items())),
            "",
            "| compared | |",
            "|---|---|",
            *(f"| {name} | {number} |" for name, number in found.counts.items()),
            "",
            "| answer to a request | times |",
            "|---|---|",
            *(f"| {name} | {number} |" for name, number in outcome.statuses.most_common()),
        ]
    )


def record(section: str, path: Path = PROOF) -> None:
    record_between(BEGIN, END, section, path)


def record_between(begin: str, end: str, section: str, path: Path) -> None:
    """Write a section between the two markers of a page; the rest of the page stays as it is."""
    text = path.read_text()
    head, begins, rest = text.partition(begin)
    _, ends, tail = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"expected both markers in {path.name}: {begin} and {end}")
    path.write_text(f"{head}{begin}\n{section}\n{end}{tail}")


def commit_of() -> str:
    """Return the commit of this tree."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="the same faults in the same order")
    parser.add_argument("--record", action="store_true", help="write the result to docs/proof.md")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(4))
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="assent-chaos-", dir=fastest_folder()))
    outcome = asyncio.run(run(given.minutes * 60, seed, folder))
    section = report(outcome, commit_of(), datetime.now(UTC))
    print(section)
    if given.record:
        record(section)
    if outcome.findings.wrong:
        print(f"The logs are in {folder}.", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
