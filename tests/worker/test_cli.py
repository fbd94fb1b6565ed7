"""`assent worker` at the door: what it prints, what it refuses, and how it ends."""

import json
import os
import pty
import re
import signal
import subprocess

import pytest

from assent.worker.supervisor import DUTIES
from tests.postgres import START
from tests.processes.commands import ASSENT, ROOT, run_worker, worker
from tests.rows import insert_step
from tests.workers import events

APP = ("--app", "tests.worker.application:app")


async def due_step(database) -> None:
    async with database.transaction(None) as connection:
        await insert_step(connection, resume_at=START)


async def test_once_runs_every_duty_until_nothing_is_left_in_an_order_that_makes_sense(database):
    for _ in range(3):
        await due_step(database)
    few = {"ASSENT_WORKER_TIMERS_BATCH_MAX": "2", "ASSENT_WORKER_EVENTS_BATCH_MAX": "1"}
    code, out, _ = await run_worker(database.url, "--once", "--json", *APP, **few)
    told = json.loads(out)
    assert code == 0
    assert list(told) == [duty.name for duty in DUTIES]
    assert told["timers"] == {"count": 3, "runs": 2, "errors": 0, "parts": {}, "error": None}
    assert (told["events"]["count"], told["partitions"]["count"] > 0) == (3, True)
    assert {event["status"] for event in await events(database)} == {"completed"}


async def test_once_prints_a_table_for_people(database):
    await due_step(database)
    code, out, _ = await run_worker(database.url, "--once", "--only", "timers", "--only", "prune")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["duty", "done"],
        ["timers", "1"],
        ["prune", "0"],
    ]


async def test_once_ends_with_one_when_a_duty_failed_and_still_runs_the_others(database):
    await due_step(database)
    async with database.transaction(None) as connection:
        await connection.execute("DROP FUNCTION assent.prune_receipts(timestamptz, integer)")
    code, out, error = await run_worker(database.url, "--once", "--json")
    told = json.loads(out)
    assert code == 1
    assert (told["prune"]["errors"], told["retention"]["errors"], told["timers"]["count"]) == (1, 0, 1)
    assert "prune_receipts" in told["prune"]["error"]
    (line,) = [json.loads(line) for line in error.splitlines()]
    assert (line["level"], line["message"], line["duty"]) == ("error", "duty failed", "prune")
    assert "Traceback" in line["trace"]


async def test_log_is_one_json_object_a_line_with_its_time_and_level(database):
    async with worker(database.url, "--only", "timers") as process:
        process.send(signal.SIGTERM)
        line = await process.line("worker stopping")
    assert (line["level"], line["logger"]) == ("info", "assent.cli.worker")
    assert line["at"].endswith("+00:00")


async def test_worker_in_a_database_that_is_not_migrated_says_what_to_do(empty_database_url):
    code, _, error = await run_worker(empty_database_url, "--once")
    assert code == 1
    assert "Run `assent migrate` first" in error
    assert "Traceback" not in error


async def test_database_that_cannot_be_reached_is_said_plainly():
    code, _, error = await run_worker("postgresql://nobody@127.0.0.1:1/none", "--once")
    assert code == 1
    assert "127.0.0.1:1" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "dishes"], "expected any of nodes, names, recovered"),
        (["--only", "events"], "events need an application"),
        (["--app", "nonsense"], "expected module:name"),
        (["--app", "no.such.module:app"], "no module 'no'"),
        (["--app", "tests.worker.application:not_an_app"], "expected an App"),
        (["--app", "tests.worker.application:nothing"], "found NoneType"),
    ],
)
async def test_wrong_usage_ends_with_two_and_says_what_was_expected(arguments, told):
    code, _, error = await run_worker("postgresql://127.0.0.1:1/none", *arguments)
    assert code == 2
    assert told in " ".join(error.replace("│", " ").split())


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ASSENT_WORKER_TIMERS_BATCH_MAX", "many", "expected a whole number from 1 to 100000"),
        ("ASSENT_WORKER_STUCK_REPAIR", "pray", "expected none, rebuild, reenqueue or force_fail"),
        ("ASSENT_WORKER_STUCK_REPAIR", "reenqueue", "reenqueue needs an application"),
    ],
)
async def test_bad_option_is_told_by_its_variable(database, name, value, told):
    code, _, error = await run_worker(database.url, "--once", **{name: value})
    assert code == 1
    assert name in error
    assert told in error


async def test_person_at_a_terminal_sees_a_table_and_a_way_out(database):
    await due_step(database)
    shown = _run_on_a_terminal(database.url, until=re.compile(rb"timers +1 "))
    assert b"duty" in shown
    assert b"Finishing what runs" in shown
    assert b'{"at"' not in shown


def _run_on_a_terminal(url: str, *, until: re.Pattern[bytes]) -> bytes:
    """Everything that a worker shows on a terminal, asked to stop when it has shown this."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "ASSENT_DATABASE_URL": url, "COLUMNS": "100", "TERM": "xterm"}
    command = [ASSENT, "worker", "--only", "timers"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    asked = False
    try:
        while more := _read(ours):
            shown += more
            if not asked and until.search(shown):
                process.send_signal(signal.SIGINT)
                asked = True
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4_096)
    except OSError:  # the other end is closed
        return b""
