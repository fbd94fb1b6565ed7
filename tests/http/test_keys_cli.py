"""`assent keys`: a key is shown once, listed without itself, and revoked for good."""

import json

import pytest
from typer.testing import CliRunner

from assent.cli.main import app as cli
from tests.http.callers import bearer, client_of

runner = CliRunner()


@pytest.fixture
def keys(database_url, monkeypatch):
    """Runs `assent keys …` in a thread, for the command has a loop of its own."""
    monkeypatch.setenv("ASSENT_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "200")

    async def run(*arguments):
        import asyncio

        return await asyncio.to_thread(runner.invoke, cli, ["keys", *arguments])

    return run


MINE = ("--org", "acme", "--user", "robot", "--name", "nightly import")


async def status(door, text) -> int:
    async with client_of(door, bearer(text)) as client:
        return (await client.get("/api/instances")).status_code


async def test_a_key_is_made_shown_once_used_and_revoked(keys, door):
    made = await keys("create", *MINE, "--scope", "workflows:read", "--scope", "entities:*")
    assert made.exit_code == 0, made.output
    text = made.stdout.strip()
    assert await status(door, text) == 200
    listed = await keys("list", "--org", "acme", "--json")
    (found,) = json.loads(listed.stdout)["items"]
    assert (found["user_id"], found["scopes"]) == ("robot", ["workflows:read", "entities:*"])
    assert text not in listed.stdout
    assert found["prefix"] in text
    revoked = await keys("revoke", found["id"], "--org", "acme")
    assert revoked.exit_code == 0
    assert await status(door, text) == 401
    again = await keys("revoke", found["id"], "--org", "acme")
    assert (again.exit_code, "NOT_FOUND" in again.output) == (1, True)


async def test_the_list_is_a_table_for_people(keys):
    await keys("create", *MINE)
    listed = await keys("list", "--org", "acme")
    assert "nightly import" in listed.stdout
    assert "robot" in listed.stdout


async def test_a_key_may_be_for_one_part_of_the_org(keys):
    made = json.loads((await keys("create", *MINE, "--partition", "north", "--json")).stdout)
    assert (made["partition_id"], made["created_by"]) == ("north", None)


async def test_a_member_has_no_more_keys_than_the_setting_says(keys, monkeypatch):
    monkeypatch.setenv("ASSENT_HTTP_KEYS_OF_MEMBER_MAX", "1")
    assert (await keys("create", *MINE)).exit_code == 0
    refused = await keys("create", *MINE)
    assert (refused.exit_code, "TOO_MANY_KEYS" in refused.output) == (1, True)


async def test_a_key_may_expire(keys, door, clock):
    made = json.loads((await keys("create", *MINE, "--expires-in", "90d", "--json")).stdout)
    assert made["expires_at"] > made["created_at"]
    assert made["key"].startswith(made["prefix"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--org", "acme", "--user", "mallory", "--name", "x"), 1, "UNKNOWN_USER"),
        ((*MINE, "--scope", "everything"), 1, "UNKNOWN_SCOPE"),
        ((*MINE, "--expires-in", "soon"), 2, "duration"),
    ],
)
async def test_what_cannot_be_is_told(keys, arguments, code, said):
    made = await keys("create", *arguments)
    assert (made.exit_code, said in made.output) == (code, True), made.output


async def test_another_orgs_keys_are_not_seen_nor_revoked(keys, door):
    made = json.loads((await keys("create", *MINE, "--json")).stdout)
    assert json.loads((await keys("list", "--org", "globex", "--json")).stdout)["items"] == []
    assert (await keys("revoke", made["id"], "--org", "globex")).exit_code == 1
    assert await status(door, made["key"]) == 200
