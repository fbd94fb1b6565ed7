"""The applications in `examples/` run as they stand."""

import hashlib
import json
import os
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import assent
from assent.store.database import Database
from assent.testing import Sandbox

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name))


def test_the_approval_in_an_own_transaction_prints_who_was_refused_and_what_was_paid(
    database_url: str,
) -> None:
    command = [sys.executable, str(EXAMPLES / "own_transaction.py")]
    environment = {**os.environ, "ASSENT_DATABASE_URL": database_url}
    for _ in range(2):  # the set-up leaves alone what is there
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (run.stdout, run.stderr) == ("ann: SEPARATION_OF_DUTIES\nmax: approved, paid: True\n", "")


async def test_a_refused_approval_leaves_the_applications_row_as_it_was(database: Database) -> None:
    example = load("own_transaction.py")
    connection = await asyncpg.connect(database.url)
    try:
        await example["set_up"](database, connection)
        runtime = example["app"].runtime(database)
        expense_id = await example["hand_in"](connection, runtime, "Taxi", 1_950, "iban")
        with pytest.raises(assent.Refused):
            await example["approve"](connection, runtime, expense_id, example["ANN"])
        assert await connection.fetchval("SELECT paid_at FROM public.reimbursements") is None
        with pytest.raises(assent.Refused):  # and a row without its expense is not inserted
            await example["hand_in"](connection, runtime, "Taxi", 0, "iban")
        assert await connection.fetchval("SELECT count(*) FROM public.reimbursements") == 1
    finally:
        await connection.close()


def entries(folder: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


async def test_photos_are_found_by_a_schedule_read_by_triggers_and_indexed_by_a_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOTO_FOLDER", str(tmp_path))
    png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (800).to_bytes(4, "big") + (600).to_bytes(4, "big")
    async with Sandbox(load("photos.py")["app"]) as sandbox:
        for name, content in (
            ("a.png", png),
            ("b.png", b"no photo"),
            ("c.txt", b"text"),
            ("d.gif", b"GIF89a"),
        ):
            (tmp_path / name).write_bytes(content)
        await sandbox.advance_time("25m")
        assert entries(tmp_path) == [
            {"name": "a.png", "sha256": hashlib.sha256(png).hexdigest(), "width": 800, "height": 600}
        ]
        tasks = (await sandbox.runtime.org(sandbox.org_id).tasks.list()).items
        counted = Counter((task.type, task.status) for task in tasks)
        assert counted == {
            ("inbox.scan", "done"): counted["inbox.scan", "done"],
            ("photo.measure", "done"): 1,
            ("photo.measure", "dead"): 1,
            ("photo.hash", "done"): 3,
            ("photo.index", "done"): 1,
        }, "two files were found again, and nothing was read twice"
        assert counted["inbox.scan", "done"] in (2, 3)


async def test_the_nightly_report_is_retried_becomes_a_dead_letter_and_is_revived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILL_FOLDER", str(tmp_path))
    example = load("nightly_report.py")
    async with Sandbox(example["app"], [example["NIGHTLY"]]) as sandbox:
        runtime, org_id = sandbox.runtime, sandbox.org_id

        async def statuses() -> list[tuple[str, int]]:
            tasks = (await runtime.org(org_id).tasks.list()).items
            return [(task.status, task.attempts) for task in reversed(tasks)]

        await runtime.org(org_id, assent.SYSTEM).instances.start("reports.nightly")
        await sandbox.advance_time("24h")
        assert await statuses() == [("retrying", 1)]  # the file is late
        till = tmp_path / f"{sandbox.clock.now().date()}.csv"
        till.write_text("item,cents\ncoffee,350\ncake,420\n")
        await sandbox.advance_time("1h")
        assert await statuses() == [("done", 2)]

        await sandbox.advance_time("23h")
        till = tmp_path / f"{sandbox.clock.now().date()}.csv"
        till.write_text("item,cents\ncoffee,three\n")
        await sandbox.advance_time("1h")
        assert (await statuses())[1:] == [("dead", 2)]  # it was late once, then unreadable
        (dead,) = (await runtime.org(org_id).tasks.list(status="dead")).items
        till.write_text("item,cents\ncoffee,300\n")
        await runtime.org(org_id).tasks.retry(dead.id)
        await sandbox.drain()
        revived = await runtime.org(org_id).tasks.get(dead.id)
        assert revived.output == {"day": till.stem, "cents": 300}

        await sandbox.advance_time("26h")  # a night without a file: four attempts, then dead
        assert (await statuses())[2:] == [("dead", 4)]
        await runtime.org(org_id).events.emit("reports:stop", cause="the shop closes")
        await sandbox.advance_time("48h")
        assert len(await statuses()) == 3  # no further night
