"""`assent test`, as a person and as a program run it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from assent.cli.main import app
from assent.store.embedded.file_lock import FileLock
from assent.testing.databases import fastest_folder
from tests.testing.written import CREATED, SUBMITTED, scenario_text, write

GOOD = SUBMITTED + "- {as: rob, approve: reader}\n- {expect: {state: signed}}"
BAD = SUBMITTED + "- {expect: {state: signed}}"

Run = Callable[..., Result]


@pytest.fixture
def run(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSENT_TEST_DATABASE_URL", postgres_url)
    return lambda *arguments: CliRunner().invoke(app, ["test", *arguments])


def test_scenarios_that_pass_are_listed_and_counted(run: Run, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    found = run()
    assert (found.exit_code, found.stderr) == (0, "")
    first, _, last = found.stdout.splitlines()
    assert first.startswith("✓ a note      4/4 steps")
    assert first.endswith("note.scenario.yaml")
    assert last.startswith("✓ 1 scenario passed, in ")
    assert "\x1b" not in found.stdout


def test_a_scenario_that_fails_is_reported_and_the_others_run(run: Run, tmp_path: Path) -> None:
    write(tmp_path, BAD, "a.yaml")
    write(tmp_path, GOOD, "b.yaml")
    found = run(str(tmp_path))
    assert found.exit_code == 1
    assert [line[0] for line in found.stdout.splitlines()[:2]] == ["✗", "✓"]
    assert f"a note ({tmp_path / 'a.yaml'}:1)\n  step 3, line 6:" in found.stdout
    assert "reader  approval asks eve, rob; since Mon 2026-03-02 09:00" in found.stdout
    assert "✗ 1 of 2 scenarios failed, in " in found.stdout


def test_fail_fast_stops_at_the_first_failure(run: Run, tmp_path: Path) -> None:
    write(tmp_path, BAD, "a.yaml")
    write(tmp_path, GOOD, "b.yaml")
    found = run("--fail-fast")
    assert found.exit_code == 1
    assert "✗ 1 of 1 scenario failed, 1 not run" in found.stdout


def test_a_word_chooses_by_name_and_file(run: Run, tmp_path: Path) -> None:
    write(tmp_path, BAD, "bad.yaml")
    write(tmp_path, GOOD, "good.yaml")
    assert run("-k", "GOOD").exit_code == 0
    assert run("-k", "a note").exit_code == 1
    nothing = run("-k", "elsewhere")
    assert nothing.exit_code == 2
    assert "no scenario has 'elsewhere' in its name" in " ".join(nothing.stderr.split())


def test_programs_get_json_and_nothing_else(run: Run, tmp_path: Path) -> None:
    write(tmp_path, BAD, "a.yaml")
    write(tmp_path, GOOD, "b.yaml")
    found = run("--json")
    outcomes = json.loads(found.stdout)
    assert found.exit_code == 1
    assert [(one["file"], one["passed"], one["steps_done"]) for one in outcomes] == [
        ("a.yaml", False, 2),
        ("b.yaml", True, 4),
    ]
    assert outcomes[0]["failure"]["differences"] == [
        {"what": "state", "expected": "signed", "found": "submitted"}
    ]
    assert outcomes[0]["failure"]["line"] == 6


def test_mistakes_in_a_scenario_are_shown_with_their_line(run: Run, tmp_path: Path) -> None:
    write(tmp_path, CREATED + "- {as: anne, submit: {}}")
    found = run()
    assert found.exit_code == 1
    assert "note.scenario.yaml:5:10: UNKNOWN_PERSON" in found.stdout
    assert "    5 │   - {as: anne, submit: {}}\n      │          ^" in found.stdout
    assert "hint: did you mean `ann`?" in found.stdout


def test_a_scenario_that_cannot_be_read_is_not_passed_over(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "- {as: ann, submit: {}")
    found = run()
    assert found.exit_code == 1
    assert "note.scenario.yaml:" in found.stdout
    assert "✗ 1 of 1 scenario failed" in found.stdout


def test_mistakes_in_a_definition_are_shown_with_their_line(run: Run, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "note.yaml").write_text("contract: note\nversion: 1\nlifecycle: {initial: a, states: {}}\n")
    found = run()
    assert found.exit_code == 1
    assert "note.yaml:3:22: UNKNOWN_STATE" in found.stdout


def test_a_scenario_uses_what_it_names(run: Run, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "tests").mkdir()
    write(tmp_path / "parts", GOOD).unlink()
    text = scenario_text(GOOD, "uses: [../parts/note.yaml]\npeople: {ann: [writer], rob: [reader]}\n")
    (tmp_path / "tests" / "a.yaml").write_text(text)
    assert run("tests").exit_code == 0
    (tmp_path / "tests" / "a.yaml").write_text(text.replace("note.yaml", "gone.yaml"))
    assert "tests/a.yaml:2:8: NOT_FOUND" in run("tests").stdout


def test_other_peoples_yaml_is_left_alone(run: Run, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "compose.yaml").write_text("services: {db: {image: postgres}}\n")
    assert run().exit_code == 0


def test_an_application_brings_its_contracts_and_actions(run: Run, tmp_path: Path) -> None:
    write(tmp_path, CREATED + "- {as: ann, shout: {}}\n- {expect: {data: {text: HELLO}}}")
    (tmp_path / "office.py").write_text(
        "from assent.app import App\n"
        "from assent.testing.sources import read_file\n"
        "from pathlib import Path\n"
        "app = App([read_file(Path('note.yaml'))[0].data])\n"
        "@app.action('note.shout')\n"
        "def shout(note, payload):\n"
        "    return {'text': note.data['text'].upper()}\n"
    )
    assert run("--app", "office:app").exit_code == 0
    without = run()
    assert without.exit_code == 1
    assert "`note` has no action `shout`" in without.stdout


@pytest.mark.parametrize("arguments", [["nowhere"], ["."], ["--app", "nonsense"]])
def test_what_makes_no_sense_is_a_usage_error(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_without_a_server_it_starts_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    before = set(fastest_folder().glob("assent-tests-*"))
    command = [str(Path(sys.executable).parent / "assent"), "test"]
    environment = {**os.environ, "ASSENT_TEST_DATABASE_URL": ""}
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert (found.returncode, found.stderr) == (0, "")
    left = [folder for folder in set(fastest_folder().glob("assent-tests-*")) - before if is_left(folder)]
    assert left == []


def is_left(folder: Path) -> bool:
    """Whether nobody uses it any more; other runs have folders of their own beside ours."""
    try:
        lock = FileLock.exclusive_if_free(folder / "run.lock")
    except FileNotFoundError:
        return False
    if lock is not None:
        lock.close()
    return lock is not None
