"""Thirty seconds of chaos with a fixed seed; `make chaos` is longer, and another one each time."""

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.chaos.__main__ import BEGIN, END, PROOF, record, report, run
from tests.postgres import fastest_folder

pytestmark = pytest.mark.long

SEED = 12
SECONDS = 30.0


@pytest.mark.timeout(400)
async def test_nothing_is_lost_and_nothing_is_done_twice(tmp_path: Path) -> None:
    # Not below the temporary folder of the test: PostgreSQL's account must be let in there.
    folder = Path(tempfile.mkdtemp(prefix="assent-chaos-", dir=fastest_folder()))
    print(f"seed {SEED}")
    outcome = await run(SECONDS, SEED, folder)
    assert not outcome.findings.wrong, "\n".join(outcome.findings.wrong)
    assert outcome.faults.total() >= 5
    assert outcome.findings.counts["documents"] > 0
    assert outcome.findings.counts["errands"] > 0
    shutil.rmtree(folder, ignore_errors=True)
    page = tmp_path / "proof.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    record(report(outcome, "abc1234", datetime(2026, 3, 2, tzinfo=UTC)), page)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n30 s, seed {SEED}, 2026-03-02")
    assert text.endswith(f"{END}\nafter\n")


def test_page_has_a_place_for_the_result() -> None:
    text = PROOF.read_text()
    assert text.index(BEGIN) < text.index(END)
