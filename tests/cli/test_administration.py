"""`assent members` and `assent roles`: an org's first people, by whoever holds the database."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from assent.cli.main import app

Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a thread, for it has a loop of its own."""
    monkeypatch.setenv("ASSENT_DATABASE_URL", database_url)
    monkeypatch.setenv("ASSENT_ORG", "globex")
    monkeypatch.setenv("COLUMNS", "200")

    async def run(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, arguments)

    return run


async def read(run: Run, *arguments: str) -> Any:
    result = await run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def test_somebody_is_taken_in_changed_let_go_and_taken_back(run: Run) -> None:
    await read(run, "members", "add", "max", "--role", "boss", "--name", "Max Moser")
    ann = await read(run, "members", "add", "ann", "--role", "clerk", "--role", "clerk", "--manager", "max")
    assert (ann["name"], ann["roles"], ann["manager_id"]) == ("ann", ["clerk"], "max")
    changed = await read(run, "members", "change", "ann", "--role", "auditor", "--email", "ann@example.com")
    assert (changed["roles"], changed["email"], changed["manager_id"]) == (
        ["auditor"],
        "ann@example.com",
        "max",
    )
    assert (await read(run, "members", "remove", "ann"))["active"] is False
    assert (await read(run, "members", "restore", "ann"))["active"] is True
    assert [member["user_id"] for member in (await read(run, "members", "list"))["items"]] == ["ann", "max"]
    bosses = await read(run, "members", "list", "--role", "boss")
    assert [member["user_id"] for member in bosses["items"]] == ["max"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("add", "system"), "RESERVED_NAME"),
        (("add", "*"), "RESERVED_NAME"),
        (("add", "ann "), "BAD_VALUE"),
        (("add", "ann", "--manager", "nobody"), "UNKNOWN_USER"),
        (("change", "nobody", "--role", "clerk"), "NOT_FOUND"),
        (("remove", "nobody"), "NOT_FOUND"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_code(
    run: Run, arguments: tuple[str, ...], code: str
) -> None:
    result = await run("members", *arguments)
    assert (result.exit_code, code in result.stderr) == (1, True), result.output


async def test_a_role_carries_what_it_was_granted_and_not_what_was_revoked(run: Run) -> None:
    await read(run, "members", "add", "robot", "--role", "admin", "--service")
    granted = await run("roles", "grant", "admin", "members:manage", "keys:manage")
    assert "admin carries keys:manage, members:manage" in granted.stdout
    await run("roles", "revoke", "admin", "members:manage", "never:granted")
    (admin,) = (await read(run, "roles", "list"))["items"]
    assert admin == {"role": "admin", "capabilities": ["keys:manage"], "members": 1}


async def test_people_get_tables(run: Run) -> None:
    await run("members", "add", "robot", "--role", "admin", "--service")
    await run("members", "remove", "robot")
    members = await run("members", "list")
    assert members.stdout.splitlines()[1].split() == ["robot", "robot", "admin", "program", "gone"]
    roles = await run("roles", "list")
    assert roles.stdout.splitlines()[1].split() == ["admin", "0"]


async def test_nobody_is_added_whose_id_is_mistaken_for_anothers(run: Run) -> None:
    await read(run, "members", "add", "ann")
    result = await run("members", "add", "\u0430nn")
    assert (result.exit_code, "LOOK_ALIKE" in result.stderr) == (1, True), result.output


async def test_the_last_who_holds_everything_keeps_it_here_too(run: Run) -> None:
    await read(run, "members", "add", "ann", "--role", "root")
    await run("roles", "grant", "root", "*")
    for command in (
        ("members", "remove", "ann"),
        ("members", "change", "ann", "--role", "clerk"),
        ("roles", "revoke", "root", "*"),
    ):
        result = await run(*command)
        assert (result.exit_code, "LAST_ADMINISTRATOR" in result.stderr) == (1, True), result.output
    await read(run, "members", "add", "bob", "--role", "root")
    assert (await read(run, "members", "remove", "ann"))["active"] is False
