"""The guide is about this command line: it has every command, and its examples are understood."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from assent.cli.main import app
from tests.cli.desk import ROOT

GUIDE = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```\n(.*?)```", GUIDE, re.DOTALL)
EXAMPLES = [
    line[line.index("assent ") :] for block in BLOCKS for line in block.splitlines() if "assent " in line
]


def parsed(line: str) -> Any:
    """The context of an example's command; raises where the command line would refuse it."""
    words = shlex.split(line)[1:]
    command = typer.main.get_command(app)
    context = command.make_context("assent", words)
    while isinstance(getattr(command, "commands", None), dict):
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]
        context = command.make_context(name, words, parent=context)
    return context


def commands() -> Iterator[str]:
    yield from typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for file in ("passport.pdf", "invoice.pdf"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSENT_APP", "tests.cli.application:app")
    monkeypatch.setenv("ASSENT_ORG", "acme")
    monkeypatch.setenv("ASSENT_USER", "ann")


def test_every_command_has_its_section_and_every_section_its_command() -> None:
    assert sorted(re.findall(r"^### (\S+)$", GUIDE, re.MULTILINE)) == sorted(commands())


def test_there_are_examples_of_every_command() -> None:
    assert {shlex.split(line)[1] for line in EXAMPLES} >= set(commands())


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_is_understood(line: str) -> None:
    assert parsed(line).params is not None


def test_an_example_that_is_wrong_would_be_noticed() -> None:
    for line in (
        "assent inbox --sort colour",
        "assent dead-letters retry",
        "assent instances show",
        "assent nonsense",
    ):
        with pytest.raises(Exception, match=r"not one of|Missing|No such command"):
            parsed(line)


def leaves(group: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """Every command that runs something, by its words."""
    for name, command in getattr(group, "commands", {}).items():
        yield from leaves(command, *words, name)
    if not hasattr(group, "commands"):
        yield " ".join(words), group


def test_every_command_that_takes_an_org_or_a_member_reads_it_from_the_environment() -> None:
    required = {
        (words, option): parameter.envvar
        for words, command in leaves(typer.main.get_command(app))
        for parameter in command.params
        for option in {"--org", "--as"} & {*parameter.opts}
        if parameter.required
    }
    variables = {"--org": "ASSENT_ORG", "--as": "ASSENT_USER"}
    assert len(required) > 20
    assert {place for place, variable in required.items() if variable != variables[place[1]]} == set()
