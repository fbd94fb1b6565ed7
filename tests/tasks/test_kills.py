"""A thousand tasks while workers are killed; `make kills` runs ten thousand."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.chaos.__main__ import PROOF
from tests.tasks.kills import BEGIN, END, WORKERS, record, report, run

pytestmark = pytest.mark.long

SEED = 7
TASKS = 1_000
KILLS = 10


async def test_killed_workers_lose_no_task_and_every_repeated_call_is_counted(
    database_url: str, tmp_path: Path
) -> None:
    outcome = await run(database_url, TASKS, SEED, KILLS)
    assert outcome.wrong == [], outcome.counts
    assert outcome.kills > WORKERS
    assert outcome.counts["lost_after_the_call"] >= outcome.kills // 2, "they were in the middle of a task"
    page = tmp_path / "proof.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    record(report(outcome, "abc1234", datetime(2026, 3, 2, tzinfo=UTC)), page)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n{TASKS} tasks in ")
    assert text.endswith(f"{END}\nafter\n")
    assert "Nothing was wrong." in text


def test_page_has_a_place_for_the_result_of_kills() -> None:
    text = PROOF.read_text()
    assert text.index(BEGIN) < text.index(END)
