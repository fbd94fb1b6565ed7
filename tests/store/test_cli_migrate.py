"""The commands that touch a database, run as a person runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

ASSENT = Path(sys.executable).parent / "assent"


def run(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASSENT_DATABASE_URL": url, "COLUMNS": "120"}
    return subprocess.run(
        [ASSENT, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_migrate_applies_everything_once_and_says_so(empty_database_url: str) -> None:
    first = json.loads(run("migrate", "--json", url=empty_database_url).stdout)
    assert first["applied"][0] == "0001_baseline"
    assert (first["known"], first["pending"]) == ([], [])
    again = run("migrate", url=empty_database_url)
    assert (again.returncode, again.stdout) == (0, f"up to date: {len(first['applied'])} migrations\n")


def test_status_changes_nothing(empty_database_url: str) -> None:
    for _ in range(2):
        status = json.loads(run("migrate", "--status", "--json", url=empty_database_url).stdout)
        assert (status["applied"], status["pending"][0]) == ([], "0001_baseline")


def test_a_database_that_cannot_be_reached_is_said_plainly() -> None:
    outcome = run("migrate", url="postgresql://nobody@127.0.0.1:1/none")
    assert outcome.returncode == 1
    assert "127.0.0.1:1" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_the_demo_tells_its_story_and_every_promise_in_it_holds(database_url: str) -> None:
    outcome = run("demo", "--story", "--force", url=database_url)
    assert outcome.returncode == 0, outcome.stderr
    for promise in (
        "version 1, draft",
        "nothing changed, nothing written",
        "RULE_DENIED",
        "POLICY_DENIED",
        "WORKFLOW_EDIT_LOCKED",
        "permission denied for table entities",
        "did not come through",
        "4 → 5",
    ):
        assert promise in outcome.stdout


def test_the_demo_can_be_run_again(database_url: str) -> None:
    assert [run("demo", "--story", "--force", url=database_url).returncode for _ in range(2)] == [0, 0]
