"""What all commands have in common, asked of every one in the tree of commands."""

from typing import Any

import pytest
import typer

from assent.cli.main import FOR_FILES, FOR_THE_DATABASE, app
from tests.cli.test_guide import leaves

COMMANDS = dict(leaves(typer.main.get_command(app)))
VARIABLES = {"--app": "ASSENT_APP", "--org": "ASSENT_ORG", "--as": "ASSENT_USER"}
ALL_ORGS = {"health", "definitions list"}
"""Commands of the operator that show all orgs where none is named."""
NO_JSON = {
    "definitions draw": "it prints a diagram",
    "demo": "it runs until a signal",
    "diagram": "it prints a diagram",
    "schema": "it prints a JSON Schema",
    "serve": "it runs until a signal",
    "templates copy": "it writes files",
    "templates list": "a line for each",
    "templates show": "it prints files",
}
ALONE = {
    *("audit", "check", "compile", "demo", "diagram", "diff", "doctor", "expression", "health", "inbox"),
    *("incidents", "migrate", "nodes", "rebuild", "schema", "serve", "test", "worker"),
}
"""Commands outside of a group: of the processes, of files, and pages that gather several nouns."""


def options(words: str) -> dict[str, Any]:
    return {name: parameter for parameter in COMMANDS[words].params for name in parameter.opts}


@pytest.mark.parametrize("words", COMMANDS)
def test_org_member_and_application_come_from_the_environment(words: str) -> None:
    for name, variable in VARIABLES.items():
        parameter = options(words).get(name)
        if parameter is not None and not (name == "--org" and words in ALL_ORGS):
            assert parameter.envvar == variable


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_prints_json_or_says_why_not(words: str) -> None:
    assert ("--json" in options(words)) == (words not in NO_JSON)


@pytest.mark.parametrize("words", COMMANDS)
def test_there_is_one_way_to_page(words: str) -> None:
    found = options(words)
    assert not {"--page", "--offset", "--after", "--size", "--max"} & found.keys()
    if "--cursor" in found:
        assert "--limit" in found
    if "--limit" in found:
        assert (found["--limit"].min, found["--limit"].max) == (1, 200)


def test_commands_are_grouped_by_noun() -> None:
    assert {words for words in COMMANDS if " " not in words} == ALONE
    assert ALONE | {words.split()[0] for words in COMMANDS} >= FOR_FILES | FOR_THE_DATABASE


@pytest.mark.parametrize("words", COMMANDS)
def test_h_is_help_and_shows_no_flag_as_if_it_took_a_value(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = typer.main.get_command(app)
    with pytest.raises(SystemExit) as ended:
        command.main([*words.split(), "-h"], prog_name="assent")
    assert ended.value.code == 0
    assert "bool" not in capsys.readouterr().out
