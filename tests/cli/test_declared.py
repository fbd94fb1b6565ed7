"""`check` and `definitions publish` without paths take what the application adds, values of Python included."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from assent.people.api_keys import create_api_key
from assent.store.database import Database
from assent.templates import library
from tests.cli.desk import ASSENT, ROOT
from tests.http.process import server
from tests.world import hire_with, insert_org, rows

APPLICATION = "examples.bookings:app"


def command(*words: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ASSENT_")}
    return subprocess.run(
        [str(ASSENT), *words],
        cwd=folder,
        env={**ours, "COLUMNS": "200", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_application_in_one_file_is_checked_by_its_name() -> None:
    found = command("check", "--app", APPLICATION)
    assert (found.returncode, found.stdout) == (0, "✓ 1 document, 1 workflow\n")
    assert json.loads(command("check", "--json", ASSENT_APP=APPLICATION).stdout)["problems"] == []


async def test_application_in_one_file_is_published_by_its_name(
    database: Database, database_url: str
) -> None:
    found = command(
        "definitions", "publish", "--org", "acme", "--app", APPLICATION, ASSENT_DATABASE_URL=database_url
    )
    assert (found.returncode, found.stderr) == (0, "")
    published = await rows(database, "workflow_definitions")
    assert {row["definition_kind"] for row in published} == {"envelope", "effective"}


FLOW = """import assent

app = assent.App().add(
    {
        "flow": "rooms.clean",
        "version": 1,
        "start": "ask",
        "steps": [{"id": "ask", "type": "action"}, {"id": "done", "type": "terminal"}],
        "transitions": [{"from": "ask", "to": "done"}],
    }
)
"""


async def test_a_server_is_sent_what_the_application_adds(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "rooms.py").write_text(FLOW)
    async with database.transaction(None) as connection:
        await insert_org(connection)
    await hire_with(database, "ann", "*")
    async with database.transaction(None) as connection:
        key, _ = await create_api_key(connection, "acme", "ann", "desk", database.clock.now(), scopes=("*",))
    words = ("definitions", "publish", "--app", "rooms:app")
    async with server(database_url) as running:
        variables = {"ASSENT_SERVER": running.url, "ASSENT_KEY": key}
        found = command(*words, folder=tmp_path, **variables)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("published  acme  flow  rooms.clean 1")
    # It is the same as on the database, to the hash.
    again = command(*words, "--org", "acme", folder=tmp_path, ASSENT_DATABASE_URL=database_url)
    assert again.stdout == found.stdout.replace("published", "unchanged")


def test_application_with_a_wrong_file_is_refused_with_the_line_and_what_was_meant(tmp_path: Path) -> None:
    """As `assent check` shows it, and not by a path alone: with ASSENT_APP set, every command loads the application."""
    shutil.copytree(library() / "expense_approval", tmp_path / "files")
    flow = tmp_path / "files" / "flow.yaml"
    text = flow.read_text()
    line = next(number for number, each in enumerate(text.split("\n"), 1) if "type: approval" in each)
    flow.write_text(text.replace("type: approval", "type: aproval", 1))
    (tmp_path / "misspelt.py").write_text("import assent\n\napp = assent.App().add('files/flow.yaml')\n")
    for words in (("inbox", "--org", "acme", "--as", "ann"), ("check", "files/flow.yaml")):
        found = command(*words, "--app", "misspelt:app", folder=tmp_path)
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr.startswith(f"files/flow.yaml:{line}:")
        assert f"{line} │ " in found.stderr
        assert "did you mean `approval`?" in found.stderr


@pytest.mark.parametrize("words", [("check",), ("definitions", "publish", "--org", "acme")])
@pytest.mark.parametrize(
    ("application", "said"),
    [
        (None, "expected files or folders, or an application with --app"),
        ("assent.demo.company:app", "the application adds no contracts, patches or flows"),
    ],
)
def test_nothing_to_check_or_publish_is_a_usage_error(
    words: tuple[str, ...], application: str | None, said: str
) -> None:
    found = command(*words, **({"ASSENT_APP": application} if application else {}))
    assert found.returncode == 2
    assert said in " ".join(found.stderr.replace("│", " ").split())
