"""The tutorial, followed to the letter: its commands in their order, its files where it says, beside a running demo."""

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo.test_demo import send, started, stopped
from tests.processes.spawn import ROOT

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {"yaml": "invoices/two.yaml"}

CURL = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.demo.test_demo import send
response = send(["curl", *sys.argv[1:]])
print(response.text)
sys.exit(not response.is_success)
"""
"""A fresh machine may have no curl; what the page asks of it is little."""


def script_of(page: str) -> str:
    """One script: what is to be typed, and what is to be saved."""
    parts = ["set -euo pipefail"]
    for language, text in BLOCK.findall(page):
        if language == "sh":
            parts.append(text)
        elif language in FILES:
            parts.append(f"cat > {FILES[language]} <<'FILE'\n{text}FILE")
    return "\n".join(parts)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to work in, with our commands and a curl in reach."""
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    (commands / "assent").symlink_to(Path(sys.executable).parent / "assent")
    curl = commands / "curl"
    curl.write_text(CURL)
    curl.chmod(curl.stat().st_mode | stat.S_IXUSR)
    return tmp_path


@pytest.mark.parametrize("tried", [False, True], ids=["at once", "after what the demo says to try"])
def test_every_command_of_the_tutorial_does_what_it_says(place: Path, tried: bool) -> None:
    demo = started(place / "demo")
    try:
        for _, command in demo.to_try() if tried else ():
            send(shlex.split(command))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSENT_")}
        environment |= {"ASSENT_DATA_DIR": str(place / "demo"), "DEMO": demo.address}
        done = subprocess.run(
            ["bash"],
            input=script_of(PAGE),
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        stopped(demo)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SEPARATION_OF_DUTIES" in done.stderr, done.stderr
    for seen in (
        "INV-10",
        '"status":"completed"',
        "refused, as it should be",
        "For the new office.",
        "quorum",
        "1 scenario passed",
    ):
        assert seen in done.stdout, done.stdout
