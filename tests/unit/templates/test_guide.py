"""docs/authoring.md: its files are read, its commands are run, and what they print is what it says."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assent.cli.main import app
from tests.golden import assert_golden

GUIDE = Path(__file__).parents[3] / "docs" / "authoring.md"
_FENCE = re.compile(r"```(?P<kind>yaml|console)\n(?P<body>.*?)```\n", re.DOTALL)
_FILE = re.compile(r"# file: (\S+)\n(.*)", re.DOTALL)
HASH = re.compile(r"\b[0-9a-f]{12,64}\b")


def run(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "assent"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (0, 1), result.output
    return HASH.sub("…", result.output)


def told(body: str) -> str:
    """A console block with what its commands print now; `...` alone stands for output that is left out."""
    blocks = re.split(r"^\$ (.*)\n", body, flags=re.MULTILINE)[1:]
    pairs = zip(blocks[::2], blocks[1::2], strict=True)
    return "".join(f"$ {command}\n{_shown(run(command), said)}" for command, said in pairs)


def _shown(output: str, said: str) -> str:
    """The output, cut where the guide cuts it."""
    if not said.endswith("...\n"):
        return output
    kept = output.splitlines(keepends=True)[: said.count("\n") - 1]
    return "".join(kept) + "...\n"


def test_every_file_and_command_of_the_guide_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8")

    def replay(fence: re.Match[str]) -> str:
        if fence["kind"] == "console":
            return f"```console\n{told(fence['body'])}```\n"
        if file := _FILE.match(fence["body"]):
            Path(file[1]).parent.mkdir(exist_ok=True)
            Path(file[1]).write_text(file[2], encoding="utf-8")
        return fence[0]

    assert_golden(GUIDE, _FENCE.sub(replay, text))


def test_the_guide_names_every_kind_of_node() -> None:
    from assent.model.patch import PATCH_KINDS

    text = GUIDE.read_text(encoding="utf-8")
    assert [kind for kind in PATCH_KINDS if f"`{kind}`" not in text] == []
