"""The application that the tests' processes run: operations that leave a mark, wait at a gate, fail, or kill."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import assent
from assent.app import App
from assent.store.connection import Connection
from assent.store.database import Database
from tests.world import ORDER

GATE = 4_343
"""The advisory lock that `tests.gate` passes: whoever holds it keeps a step in the middle of its transaction."""

CALLS = """
CREATE TABLE public.calls (id bigint GENERATED ALWAYS AS IDENTITY, what text NOT NULL);
GRANT SELECT, INSERT ON public.calls TO assent_engine;
"""

app = App([ORDER])


def say(**news: object) -> None:
    """A line to whoever started this process; in one write, for others may say something at the same time."""
    os.write(sys.stdout.fileno(), json.dumps({"pid": os.getpid(), **news}).encode() + b"\n")


@app.operation("tests.mark")
async def mark(connection: Connection, arguments: Mapping[str, Any]) -> None:
    """Writes a row that commits with its step, or not at all."""
    await connection.execute("INSERT INTO public.calls (what) VALUES ($1)", str(arguments.get("what")))


@app.operation("tests.gate")
async def gate(connection: Connection, arguments: Mapping[str, Any]) -> None:
    await mark(connection, arguments)
    await connection.execute("SELECT pg_advisory_xact_lock_shared($1)", GATE)


@app.operation("tests.fail")
async def fail(connection: Connection, arguments: Mapping[str, Any]) -> None:
    """Writes its row first, so that a test sees whether the row was rolled back."""
    await mark(connection, arguments)
    if arguments.get("fails"):
        raise RuntimeError(f"{arguments['what']} is poisoned")


@app.operation("tests.halt")
async def halt(connection: Connection, arguments: Mapping[str, Any]) -> None:
    """Stands still in the middle of its transaction, where it is told to, until somebody lets it go on or kills it."""
    await mark(connection, arguments)
    if arguments.get("halts"):
        say(news="halted", what=arguments["what"])
        os.kill(os.getpid(), signal.SIGSTOP)


@app.operation("tests.kill")
async def kill(connection: Connection, arguments: Mapping[str, Any]) -> None:
    """Takes its process with it, where it is told to and the process is one that may die."""
    if arguments.get("kills") and os.environ.get("MAY_DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    await mark(connection, arguments)


@app.task("tests.run", attempts_max=3)
async def run(task: assent.TaskContext, what: str, kills: bool = False, waits: bool = False) -> str:
    """Leaves a mark that commits with its completion; before, where it is told to, it dies or waits at the gate."""
    if kills and os.environ.get("MAY_DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    async with task.transaction() as connection:
        await (gate if waits else mark)(connection, {"what": what})
    return what


@app.task("tests.kill", attempts_max=3)
async def kill_task(what: str) -> str:
    """Takes its process with it, where that is one that may die."""
    if os.environ.get("MAY_DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return what


async def keep_calls(database: Database) -> None:
    """Make the table that operations write to."""
    async with database.transaction(None) as connection:
        await connection.execute(CALLS)


async def calls(database: Database) -> list[str]:
    """What was called and committed, in order."""
    async with database.transaction(None) as connection:
        rows = await connection.fetch("SELECT what FROM public.calls ORDER BY id")
    return [row["what"] for row in rows]
