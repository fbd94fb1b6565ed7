"""`assent audit`: what was done by the command line, and everything else, in one list."""

from getpass import getuser
from socket import gethostname

from assent.store.database import Database
from tests.cli.desk import Desk, lines


async def test_a_command_of_the_command_line_says_who_and_from_which_host(desk: Desk) -> None:
    started = await desk.json("instances", "start", "payment", "-d", "order=7")
    (entry,) = await desk.items("audit", "--subject", started["id"], user="aud")
    assert (entry["action"], entry["actor_id"], entry["channel"]) == ("workflow.start", "ann", "cli")
    assert entry["place"] == f"{getuser()}@{gethostname()}"


async def test_events_repairs_and_keys_are_on_record_too(desk: Desk, company: Database) -> None:
    started = await desk.json("instances", "start", "payment", "-d", "order=7")
    async with company.transaction(None) as connection:
        await connection.execute("UPDATE assent.workflow_instances SET generation = 9 WHERE org_id = 'acme'")
    await desk.run("events", "emit", "paid:7", "--cause", "evt-1", user="ops")
    await desk.run("rebuild", started["id"], user="ops")
    await desk.run("keys", "create", "--org", "acme", "--user", "ann", "--name", "mine", user="ops")
    found = await desk.items("audit", "--channel", "cli", user="aud")
    assert [(entry["action"], entry["actor_id"]) for entry in found] == [
        ("api_key.create", "system"),
        ("workflow.rebuild", "ops"),
        ("event.emit", "ops"),
        ("workflow.start", "ann"),
    ]
    assert found[2]["details"] == {"cause": "evt-1"}


async def test_a_list_for_people_shows_what_changed_and_pages_go_on(desk: Desk) -> None:
    await desk.run("keys", "create", "--org", "acme", "--user", "ann", "--name", "mine")
    await desk.run("keys", "create", "--org", "acme", "--user", "ann", "--name", "other")
    first = await desk.json("audit", "--action", "api_key.create", "--limit", "1", user="aud")
    heading, row = lines(
        await desk.run("audit", "--action", "api_key.create", "--cursor", first["next"], user="aud")
    )
    assert heading[:4] == ["at", "who", "what", "of"]
    assert "name: null → mine" in " ".join(row)
    nothing = await desk.run("audit", "--since", "2999-01-01", user="aud")
    assert nothing.stdout == "Nothing of the kind is on record.\n"
