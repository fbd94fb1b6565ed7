"""The commands that touch a database, run as a person runs them."""

import json

from tests.processes.commands import run_command


def test_migrate_applies_everything_once_and_says_so(empty_database_url: str) -> None:
    first = json.loads(run_command("migrate", "--json", url=empty_database_url).stdout)
    assert first["applied"][0] == "0001_baseline"
    assert (first["known"], first["pending"]) == ([], [])
    again = run_command("migrate", url=empty_database_url)
    assert (again.returncode, again.stdout) == (0, f"up to date: {len(first['applied'])} migrations\n")


def test_status_changes_nothing(empty_database_url: str) -> None:
    for _ in range(2):
        status = json.loads(run_command("migrate", "--status", "--json", url=empty_database_url).stdout)
        assert (status["applied"], status["pending"][0]) == ([], "0001_baseline")


def test_a_database_that_cannot_be_reached_is_said_plainly() -> None:
    outcome = run_command("migrate", url="postgresql://nobody@127.0.0.1:1/none")
    assert outcome.returncode == 1
    assert "127.0.0.1:1" in outcome.stderr
    assert "Traceback" not in outcome.stderr
