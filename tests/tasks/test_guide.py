"""The page about tasks says what is so: its examples run, in their order, as they stand."""

import asyncio
import re
from pathlib import Path
from typing import Any

import asyncpg
import yaml

import assent
from assent.model.moves import JOB_MOVES
from assent.store.database import Database
from tests.authored import END
from tests.workers import TasksWorker
from tests.world import ANN, ORG, drain, publish_steps

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


async def run(code: str, names: dict[str, Any]) -> None:
    """Run a block that may await, and keep the names that it makes."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    exec(f"async def block():\n{body}\n    globals().update(locals())", names)  # noqa: S102
    await names["block"]()


async def test_every_example_runs(database: Database) -> None:
    connection = await asyncpg.connect(database.url)
    await connection.execute(
        "CREATE TABLE public.orders (id integer); CREATE TABLE public.bookings (number integer)"
    )
    await connection.execute("GRANT INSERT ON public.bookings TO assent_engine")
    names: dict[str, Any] = {"assent": assent, "Any": Any, "database": database, "connection": connection}
    awaiting = [code for code in blocks("python") if ".result(" in code]
    for code in blocks("python"):
        if code not in awaiting:
            await run(code, names)
    async with database.transaction(None) as connection_of_ours:
        for statement in blocks("sql")[0].split(";\n"):
            if statement.strip():
                await connection_of_ours.execute(statement)
    tasks_worker = TasksWorker(names["app"], database)
    await tasks_worker.submit("report.book", {"number": 7})
    await tasks_worker.submit("report.send", {"address": ""})
    await tasks_worker.submit("report.send", {"address": "ann"})
    found = {
        (row["input"].get("month"), row["status"])
        for row in await tasks_worker.rows()
        if row["type"] == "report.build"
    }
    assert found == {("May", "cancelled"), ("June", "queued"), ("July", "queued"), ("August", "queued")}
    photos = await tasks_worker.submit("photo.analyse", {"photos": ["a", "bc"]})
    printed = await tasks_worker.submit("report.print", {"month": "May"})
    assert await tasks_worker.work() == {"done": 7, "dead": 1, "retrying": 1, "blocked": 1, "background": 1}
    await tasks_worker.runtime.org(ORG).tasks.complete(printed, {"pages": 12})
    assert (await tasks_worker.runtime.org(ORG).tasks.get(photos)).output == 3
    assert [await connection.fetchval(f"SELECT count(*) FROM {t}") for t in ("orders", "bookings")] == [1, 1]  # noqa: S608
    names["acme"] = tasks_worker.runtime.org(ORG)
    working = asyncio.create_task(work_on(tasks_worker))
    for code in awaiting:
        await run(code, names)
    working.cancel()
    await asyncio.wait({working})
    await connection.close()
    await tasks_worker.duty.finish()


async def work_on(worker: TasksWorker) -> None:
    while True:
        await worker.duty.run_once()


async def test_the_step_of_the_page_runs(database: Database) -> None:
    (step,) = yaml.safe_load(blocks("yaml")[0])
    names: dict[str, Any] = {"assent": assent, "Any": Any}
    await run(blocks("python")[0], names)
    tasks_worker = TasksWorker(names["app"], database)
    ways = [{"from": "build", "event": event, "to": "end"} for event in ("completed", "error", "timeout")]
    await publish_steps(database, "reports", [step, END], ways)
    await tasks_worker.runtime.org(ORG, ANN).instances.start("reports", {"month": "May"})
    await tasks_worker.work()
    await drain(tasks_worker.runtime)
    assert await tasks_worker.status() == "done"


def test_every_status_is_on_the_page() -> None:
    assert all(f"`{status}`" in PAGE for status in JOB_MOVES)
