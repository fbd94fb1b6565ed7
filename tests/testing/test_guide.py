"""docs/testing.md: its files are read, its commands and its Python run, and what they print is what it says."""

import asyncio
import re
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assent.cli.main import app
from assent.testing.scenarios.steps import NAMED, Expected
from tests.golden import assert_golden

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
_FENCE = re.compile(r"```(?P<kind>yaml|console|python)\n(?P<body>.*?)```\n", re.DOTALL)
_FILE = re.compile(r"# file: (\S+)\n(.*)", re.DOTALL)
_TOOK = re.compile(r" +[0-9]+\.[0-9]+ s")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> Path:
    """A folder with every file of the guide, in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSENT_TEST_DATABASE_URL", postgres_url)
    for fence in _FENCE.finditer(GUIDE.read_text(encoding="utf-8")):
        if file := _FILE.match(fence["body"]):
            (tmp_path / file[1]).parent.mkdir(exist_ok=True)
            (tmp_path / file[1]).write_text(file[2], encoding="utf-8")
    return tmp_path


def told(body: str) -> str:
    """A console block with what its commands print now."""
    commands = re.findall(r"^\$ (.*)\n", body, flags=re.MULTILINE)
    return "".join(f"$ {command}\n{_output(command)}" for command in commands)


def _output(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "assent"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (0, 1), result.output
    return _TOOK.sub(" … s", result.output)


def test_every_command_of_the_guide_prints_what_it_says(home: Path) -> None:
    def replay(fence: re.Match[str]) -> str:
        return f"```console\n{told(fence['body'])}```\n" if fence["kind"] == "console" else fence[0]

    assert_golden(GUIDE, _FENCE.sub(replay, GUIDE.read_text(encoding="utf-8")))


def test_the_test_in_python_passes(home: Path) -> None:
    asyncio.run(runpy.run_path(str(home / "test_leave.py"))["test_the_boss_is_asked_for_two_days"]())


def test_scenarios_run_beside_other_tests(home: Path) -> None:
    module = runpy.run_path(str(home / "test_scenarios.py"))
    (mark,) = module["test_scenario"].pytestmark
    for found in mark.args[1]:
        asyncio.run(module["test_scenario"](found))


def test_the_guide_names_every_step_and_every_expectation() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in NAMED if f"{name}:" not in text and f"`{name}`" not in text] == []
    assert [name for name in Expected.model_fields if f"`{name}`" not in text] == []
