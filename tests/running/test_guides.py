"""docs/guides: the Python of each page runs, one block after the other, and prints what the page says."""

import os
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from tests.django_settings import django_on

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "examples"))
bookings: Any = import_module("bookings").app  # as an application would import it
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
_FENCE = re.compile(r"```(?P<kind>python|sh|)\n(?P<body>.*?)```\n", re.DOTALL)
TABLES_OF = {"django": ["CREATE TABLE public.booked_seats (booking_id uuid, room text)"]}
"""What the set-up makes without a command of ours or `psql`: Django's migration makes its model's table."""


def prepare(page: Path, url: str) -> None:
    """Run the commands of the page's set-up, on an empty database; the scripts set up themselves."""
    with psycopg.connect(url) as connection:
        for table in TABLES_OF.get(page.stem, ()):
            connection.execute(table)
    for block in re.findall(r"```sh\n(.*?)```\n", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            program, *words = shlex.split(line, comments=True)
            if program == "assent":
                command([*words], url)
            elif program == "psql":
                with psycopg.connect(url) as connection:
                    connection.execute(words[-1])


def command(words: list[str], url: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "assent"), *words],
        cwd=ROOT / "examples",
        env={**os.environ, "ASSENT_DATABASE_URL": url, "ASSENT_ORG": "acme"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def ann() -> SimpleNamespace:
    """A user as Django's authentication gives it."""
    groups = SimpleNamespace(all=lambda: [SimpleNamespace(name="clerk")])
    return SimpleNamespace(get_username=lambda: "ann", groups=groups)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_every_example_runs_and_prints_what_it_says(
    page: Path, empty_database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database_url = empty_database_url
    prepare(page, database_url)
    monkeypatch.setenv("ASSENT_DATABASE_URL", database_url)
    names: dict[str, Any] = {"__name__": f"guide_{page.stem}", "ann": ann()}
    monkeypatch.setitem(sys.modules, names["__name__"], SimpleNamespace(__file__=str(page)))
    printed, compared = "", 0
    with django_on(database_url) if page.stem == "django" else nullcontext():
        for block in _FENCE.finditer(page.read_text(encoding="utf-8")):
            if block["kind"] == "python":
                exec(compile(block["body"], str(page), "exec"), names)  # noqa: S102 - the guide's own text
                printed = capsys.readouterr().out
            elif not block["kind"] and not block["body"].startswith("pip install"):
                assert printed == block["body"]
                compared += 1
    assert compared > 0


def test_every_guide_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert {page.name for page in GUIDES} == set(re.findall(r"\(guides/(\w+\.md)\)", index))
