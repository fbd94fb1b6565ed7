"""The page about schedules and triggers says what is so: its examples run, in their order, as they stand."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import assent
from assent.runtime.event_processor import EventProcessor
from assent.store.clock import MovedClock
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.schedules import Schedules
from assent.worker.upkeep import Names
from tests.tasks.test_guide import run
from tests.workers import TasksWorker, run_until_done
from tests.world import ORG, fetch, insert_org

PAGE = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()


@pytest.mark.without_twin("a schedule of the page runs in all orgs")
async def test_every_example_runs(database: Database, clock: MovedClock) -> None:
    async with database.transaction(None) as connection:
        await insert_org(connection, ORG, {})
    names: dict[str, Any] = {"assent": assent, "Any": Any, "datetime": datetime, "database": database}
    night, commands, on_event, on_completion = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for code in (night, commands, on_event):
        await run(code, names)
    assert {at.astimezone(ZoneInfo("Europe/Berlin")).strftime("%a %H:%M") for at in names["times"]} == {
        "Mon 09:00"
    }
    await run(on_completion, names)
    app = names["app"]
    place = WorkerContext(database, runtime=app.runtime(database))
    worker = TasksWorker(app, database)
    await Names(place).run_once()
    await Schedules(place).run_once()
    await _route_and_work(worker)
    clock.advance("1d")
    await run_until_done(Schedules(place))
    await _route_and_work(worker)
    done = {
        row["type"]: row["input"] for row in await fetch(database, "SELECT * FROM assent.task_submissions")
    }
    assert done["search.index"]["outputs"] == {"photo.read": {"width": 800}, "text.read": "some text"}
    night_of = datetime.fromisoformat(done["reports.build"]["scheduled_at"])
    assert night_of.tzinfo == UTC
    await worker.duty.finish()


async def _route_and_work(worker: TasksWorker) -> None:
    processor = EventProcessor(worker.runtime.core)
    for _ in range(3):
        await processor.route_arrivals()
        await worker.work()
