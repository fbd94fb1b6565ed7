"""An application in one short file: declared, run as a process, ended by Ctrl-C, run again."""

import asyncio
import os
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

import assent
from assent.testing import Sandbox
from tests.processes.spawn import ROOT

EXAMPLE = ROOT / "examples" / "expenses.py"


def run(database_url: str) -> tuple[subprocess.Popen[str], str]:
    """The example as a process, and its address."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "ASSENT_DATABASE_URL": database_url, "ASSENT_PORT": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Serving acme on http://"), line
    return process, line.split()[3].rstrip(";")


def end(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    return process.returncode


async def orgs_in(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [
            row[0]
            for row in await connection.fetch("SELECT org_id FROM assent.orgs WHERE org_id <> 'aatwin'")
        ]
    finally:
        await connection.close()


def test_an_application_is_run_and_run_again(database_url: str) -> None:
    for _ in range(2):
        process, address = run(database_url)
        assert httpx.get(f"{address}/readyz", timeout=30).status_code == 200
        assert end(process) == 0
    assert asyncio.run(orgs_in(database_url)) == ["acme"], "its schedules run in every org that has a record"


def test_who_runs_it_first_is_told_how_to_sign_in(database_url: str) -> None:
    process, address = run(database_url)
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(3)]
    assert "the roles clerk, manager" in said[0]
    environment = {**os.environ, "ASSENT_DATABASE_URL": database_url}
    for line in said[1:]:
        command = [sys.executable, "-m", *shlex.split(line)]
        printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    headers = {"Authorization": f"Bearer {printed.strip()}"}
    expense = {"data": {"title": "Taxi", "total": 1950}}
    made = httpx.post(f"{address}/api/entities/expense", json=expense, headers=headers, timeout=30)
    assert (made.status_code, end(process)) == (201, 0), made.text


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, assent; sys.exit(bool({'asyncpg', 'pydantic', 'lark'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_name_that_is_promised_is_there() -> None:
    assert all(getattr(assent, name) is not None for name in assent.__all__)
    with pytest.raises(AttributeError, match="assent has no 'Worker'"):
        _: Any = assent.Worker  # type: ignore[attr-defined]


CONTRACT = """
contract: note
version: 1
fields: {text: {type: text}}
lifecycle: {initial: open, states: {open: {edit: editable}}}
"""


def test_declarations_come_from_files_folders_and_values(tmp_path: Path) -> None:
    (tmp_path / "note.yaml").write_text(CONTRACT)
    (tmp_path / "deeper").mkdir()
    flow = "flow: f\nversion: 1\nstart: a\nsteps: [{id: a, type: terminal}]\ntransitions: []\n"
    (tmp_path / "deeper" / "f.yaml").write_text(flow)
    app = assent.App().add(
        tmp_path,
        {
            "contract": "memo",
            "version": 1,
            "lifecycle": {"initial": "a", "states": {"a": {"edit": "locked"}}},
        },
    )
    assert set(app.registry.contracts) == {"note", "memo"}
    assert len(app.sources) == 3


@pytest.mark.parametrize("text", ["contract: note\nversion: [1\n", CONTRACT.replace("editable", "sometimes")])
def test_what_cannot_be_read_is_said_with_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(assent.Invalid, match=r"bad\.yaml:\d+"):
        assent.App().add(tmp_path / "bad.yaml")


async def test_the_inbox_of_the_example_shows_money_and_not_minor_units() -> None:
    example = runpy.run_path(str(EXAMPLE))
    async with Sandbox(example["app"], [example["EXPENSE"], example["REMINDER"]]) as sandbox:
        await sandbox.people(ann=["clerk"], max=["manager"])
        acme = sandbox.runtime.org(sandbox.org_id)
        by_ann = acme.by(await sandbox.actor("ann"))
        taxi = (await by_ann.entities.mutate("expense.create", {"title": "Taxi", "total": 1_950})).entity
        await by_ann.entities.transition(taxi.id, "submit")
        (item,) = (await acme.by(await sandbox.actor("max")).approvals.inbox()).items
    assert item.figure_text == "19.50 EUR"


async def test_the_flow_of_the_example_counts_in_the_background_and_tells() -> None:
    example = runpy.run_path(str(EXAMPLE))
    async with Sandbox(example["app"], [example["EXPENSE"], example["REMINDER"]]) as sandbox:
        await sandbox.people(ann=["clerk"])
        ann = await sandbox.actor("ann")
        taxi = assent.Command(sandbox.org_id, "expense.create", ann, {"title": "Taxi", "total": 1_950})
        await sandbox.runtime.core.kernel.mutate(taxi)
        await sandbox.runtime.org(sandbox.org_id, ann).instances.start(
            "expenses.reminder", {"to": "ann@acme.example"}
        )
        await sandbox.advance_time("30 days")
        async with sandbox.database.transaction(None) as connection:
            assert (
                await connection.fetchval(
                    "SELECT status FROM assent.jobs WHERE org_id = 'acme' AND kind = 'task'"
                )
                == "done"
            )
            told = await connection.fetchval("SELECT payload FROM assent.effects WHERE org_id = 'acme'")
    assert told["text"] == "There are 1 expenses to hand in."
