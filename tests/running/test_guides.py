"""docs/guides: the Python of each page runs, one block after the other, and prints what the page says."""

import re
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from assent.running import publish
from tests.django_settings import django_on

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "examples"))
bookings: Any = import_module("bookings").app  # as an application would import it
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
_FENCE = re.compile(r"```(?P<kind>python|)\n(?P<body>.*?)```\n", re.DOTALL)
TABLES = """
CREATE TABLE public.seats (room text, guests integer);
CREATE TABLE public.booked_seats (booking_id uuid, room text);
"""


def prepare(url: str) -> None:
    """Publish the application, and make the tables of the guides."""
    with bookings.sync_runtime(url) as runtime:
        runtime.run(publish, "acme", bookings.sources)
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)
        connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ('acme', 'max', 'Max', '{manager}')"
        )


def ann() -> SimpleNamespace:
    """A user as Django's authentication gives it."""
    groups = SimpleNamespace(all=lambda: [SimpleNamespace(name="clerk")])
    return SimpleNamespace(get_username=lambda: "ann", groups=groups)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_every_example_runs_and_prints_what_it_says(
    page: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(database_url)
    monkeypatch.setenv("ASSENT_DATABASE_URL", database_url)
    names: dict[str, Any] = {"__name__": f"guide_{page.stem}", "ann": ann()}
    monkeypatch.setitem(sys.modules, names["__name__"], SimpleNamespace(__file__=str(page)))
    printed, compared = "", 0
    with django_on(database_url) if page.stem == "django" else nullcontext():
        for block in _FENCE.finditer(page.read_text(encoding="utf-8")):
            if block["kind"] == "python":
                exec(compile(block["body"], str(page), "exec"), names)  # noqa: S102 - the guide's own text
                printed = capsys.readouterr().out
            elif not block["body"].startswith("pip install"):
                assert printed == block["body"]
                compared += 1
    assert compared > 0


def test_every_guide_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert {page.name for page in GUIDES} == set(re.findall(r"\(guides/(\w+\.md)\)", index))
