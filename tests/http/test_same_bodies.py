"""HTTP and the command line show the same bodies: what `--json` prints is what HTTP returns for the same thing."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from assent.cli.main import app as cli
from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.store.database import Database
from tests.cli.desk import Desk
from tests.http.application import CHAIN, INVOICE_DATA, app
from tests.http.callers import CALLBACKS, SETTINGS, People, problem
from tests.http.doors import create_app
from tests.postgres import SETTINGS as DATABASE_SETTINGS
from tests.rows import insert_effect, insert_event
from tests.world import hire_with

KEY = "start-17"
LONELY: dict[str, Any] = {
    "flow": "lonely",
    "version": 1,
    "start": "ask",
    "steps": [
        {"id": "ask", "type": "approval", "assignee": {"role": "unheld"}},
        {"id": "done", "type": "terminal"},
    ],
    "transitions": [
        {"from": "ask", "event": "approved", "to": "done"},
        {"from": "ask", "event": "rejected", "to": "done"},
    ],
}
INPUT = {"order_id": "17", "customer_email": "bob@example.com"}

BY_LIST: dict[str, tuple[str, str]] = {
    "instances list": ("alice", "/api/instances"),
    "inbox": ("bob", "/api/inbox"),
    "members list": ("adam", "/api/members"),
    "roles list": ("adam", "/api/roles"),
    "keys list": ("adam", "/api/keys?all=true"),
    "secrets list": ("adam", "/api/secrets"),
    "signing-secrets list": ("adam", "/api/signing-secrets"),
    "rules list": ("adam", "/api/rules"),
    "rules evaluations expense odd": ("adam", "/api/rules/expense/odd/evaluations"),
    "chains list": ("adam", "/api/approval-chains"),
    "audit": ("adam", "/api/audit"),
    "incidents --each": ("adam", "/api/operations/incidents/all"),
    "dead-letters list": ("adam", "/api/operations/dead-letters"),
}
"""Commands that list → who asks, and the list of HTTP."""
BY_COMMAND = {
    *("instances start", "instances advance", "instances pause", "instances resume", "instances retry"),
    *("instances cancel", "instances skip", "instances show", "instances edit"),
    *("instances cancel-token", "instances force-fail"),
    *("approvals show", "approvals decide", "approvals claim", "approvals release", "approvals reassign"),
    *("members add", "members change", "members remove", "members restore"),
    *(
        "org show",
        "org set",
        "org unset",
        "rules show",
        "rules save",
        "rules delete",
        "chains show",
        "chains save",
    ),
    *("signing-secrets rotate", "signing-secrets retire"),
    *("keys create", "secrets set", "events emit", "health"),
    *("check", "diff", "definitions list", "definitions publish"),
}
"""Commands that a test below compares with a reply."""
ONLY_HERE = {
    "org create": "for the operator of the database: a caller of HTTP belongs to one org",
    "events list": "HTTP counts open work in `/api/operations/health`, and lists none",
    "dead-letters discard": "several at once, with what was refused; HTTP discards one",
    "dead-letters retry": "several at once, with what was refused; HTTP retries one",
    "dead-letters retry-all": "several at once, with what was refused; HTTP retries one",
    "rebuild": "several at once, with their differences; HTTP rebuilds one",
    "definitions recompile": "for the operator of all orgs",
    "compile": "the compiled workflow as a file",
    "expression": "for authors, without a database",
    "test": "for authors, without a database",
    "doctor": "for the operator of the database",
    "migrate": "for the operator of the database",
    "worker": "the counts of one process",
}


NOTICED = {
    "action": "create",
    "timing": "before",
    "condition": "entity.total > 900000000",
    "outcome": "deny",
    "then": {"message": "too much"},
}


@dataclass
class World:
    """Both doors of one database, which goes by the clock of the machine, as commands do."""

    database: Database
    people: People
    desk: Desk
    ids: dict[str, str] = field(default_factory=dict)

    async def http(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        async with self.people(user) as client:
            response = await client.request(method, path, json=body, headers=headers)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def started(self) -> Any:
        """The instance of `KEY` as HTTP shows it after a command: the reply that was kept is forgotten first."""
        return await self.start("orders.approval", INPUT, KEY)

    async def start(self, flow: str, data: Any, key: str) -> Any:
        async with self.database.transaction(None) as connection:
            await connection.execute("DELETE FROM assent.http_replies WHERE org_id = 'acme'")
        return await self.http("alice", "POST", f"/api/flows/{flow}/start", data, **{"Idempotency-Key": key})


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    database = await Database.open(database_url, settings=DATABASE_SETTINGS)
    try:
        door = create_app(app, database, SETTINGS, CALLBACKS)
        desk = Desk(database_url, "tests.http.application:app")
        world = World(database, People(door, database.clock.now()), desk)
        started = await world.started()
        world.ids = {"instance": started["id"], "request": started["steps"][0]["request_id"]}
        yield world
    finally:
        await database.close()


def commands(group: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """Every command, by its words."""
    if isinstance(group, TyperGroup):
        for name, command in group.commands.items():
            yield from commands(command, *words, name)
    else:
        yield " ".join(words), group


def test_every_command_with_json_is_compared_or_says_why_not() -> None:
    with_json = {
        words
        for words, command in commands(typer.main.get_command(cli))
        if any("--json" in parameter.opts for parameter in command.params)
    }
    lists = {" ".join(word for word in words.split()[:2] if word[0] != "-") for words in BY_LIST}
    assert with_json == lists | BY_COMMAND | ONLY_HERE.keys()


@pytest.fixture
async def full(world: World) -> World:
    """Two items at least in every list."""
    await world.http("alice", "POST", "/api/flows/survey/start", {"order": "7"})
    await world.http("alice", "POST", "/api/flows/orders.approval/start", INPUT)
    for name in ("one", "two"):
        await world.http("alice", "POST", "/api/keys", {"name": name})
        secret = {"value": "kT8vw-2fQ9xL", "hosts": ["erp.example"]}
        await world.http("adam", "PUT", f"/api/secrets/{name}", secret)
        await world.http("adam", "POST", "/api/signing-secrets/rotate")
        await world.http("adam", "PUT", f"/api/rules/expense/{name}", NOTICED)
        await world.http("adam", "PUT", f"/api/approval-chains/{name}", CHAIN)
    await world.http("adam", "PUT", "/api/rules/expense/odd", NOTICED)
    for title in ("Taxi", "Train"):
        await world.http("alice", "POST", "/api/entities/expense", {"data": {"title": title, "total": 7}})
    dead = {"status": "dead", "attempts": 10, "error": "it broke", "instance_id": world.ids["instance"]}
    async with world.database.transaction(None) as connection:
        await insert_event(
            connection, org_id="acme", event_type="on_poke", payload_json={"cause": "x"}, **dead
        )
        await insert_effect(connection, org_id="acme", lane="mail", **dead)
    return world


@pytest.mark.parametrize("words", BY_LIST)
async def test_lists_are_the_same_page_by_page(full: World, words: str) -> None:
    user, path = BY_LIST[words]
    whole = await full.http(user, "GET", f"{path}{'&' if '?' in path else '?'}limit=200")
    assert len(whole["items"]) > 1
    assert await full.desk.json(*words.split(), "--limit", 200, user=user) == whole
    first = await full.http(user, "GET", f"{path}{'&' if '?' in path else '?'}limit=1")
    assert first["next"] is not None
    assert await full.desk.json(*words.split(), "--limit", 1, user=user) == first
    rest = await full.desk.json(*words.split(), "--limit", 199, "--cursor", first["next"], user=user)
    assert first["items"] + rest["items"] == whole["items"]


async def test_an_instance_is_the_same_after_every_command(world: World) -> None:
    desk, instance_id = world.desk, world.ids["instance"]
    start = ["instances", "start", "orders.approval", "--key", KEY]
    data = [word for name, value in INPUT.items() for word in ("-d", f'{name}="{value}"')]
    assert await desk.json(*start, *data, user="alice") == await world.started()
    for command in ("pause", "resume"):
        done = await desk.json("instances", command, instance_id, user="olga")
        assert done == await world.started()
    done = await desk.json("instances", "advance", instance_id, "rejected", user="bob")
    assert done == await world.started()
    assert done["status"] == "completed"


async def test_an_instance_that_stopped_is_the_same_after_repairs(world: World) -> None:
    async with world.database.transaction(None) as connection:
        await publish_flow(connection, "acme", LONELY, SYSTEM, world.database.clock.now())
    stopped = await world.start("lonely", {}, "lonely")
    assert (stopped["status"], stopped["incident"]["code"]) == ("paused", "NO_APPROVERS")
    for words in (["retry"], ["skip", "ask", "ask->done:rejected"]):
        command, *rest = words
        done = await world.desk.json("instances", command, stopped["id"], *rest, user="olga")
        assert done == await world.start("lonely", {}, "lonely")
    assert done["status"] == "completed"
    started = await world.start("orders.approval", INPUT, "another")
    done = await world.desk.json("instances", "cancel", started["id"], user="alice")
    assert done == await world.start("orders.approval", INPUT, "another")


async def test_an_instance_is_shown_with_the_bodies_of_its_parts(world: World) -> None:
    entity = await world.http("alice", "POST", "/api/entities/invoice", {"data": INVOICE_DATA})
    path = f"/api/entities/invoice/{entity['id']}"
    moved = await world.http("alice", "POST", f"{path}/transitions/submit")
    shown = await world.desk.json("instances", "show", moved["instance"]["id"], user="alice")
    assert shown["entity"] == await world.http("alice", "GET", path)
    assert shown["instance"] == await world.http("alice", "GET", f"/api/instances/{moved['instance']['id']}")
    assert shown["approvals"]
    for approval in shown["approvals"]:
        assert approval == await world.http("alice", "GET", f"/api/approvals/{approval['id']}")
        assert approval["snapshot"]["number"] == INVOICE_DATA["number"]


async def test_an_approval_is_the_same_after_every_command(world: World) -> None:
    request_id = world.ids["request"]
    path = f"/api/approvals/{request_id}"
    assert await world.desk.json("approvals", "show", request_id, user="bob") == await world.http(
        "bob", "GET", path
    )
    for words in (["claim"], ["release"], ["reassign", "bob", "max"], ["decide", "approved"]):
        command, *rest = words
        user = "carol" if command == "decide" else "bob"
        done = await world.desk.json("approvals", command, request_id, *rest, user=user)
        assert done == {"request": await world.http("bob", "GET", path), "instance": await world.started()}


async def test_a_member_who_may_not_read_what_they_changed_is_shown_nothing(world: World) -> None:
    await hire_with(world.database, "pat", "approvals:reassign")
    path = f"/api/approvals/{world.ids['request']}/reassign"
    body = {"from_user": "bob", "to_user": "max"}
    assert await world.http("pat", "POST", path, body) is None
    words = ("approvals", "reassign", world.ids["request"], "carol", "fin")
    assert await world.desk.json(*words, user="pat") is None


async def test_members_keys_secrets_and_events_are_the_same(world: World) -> None:
    desk = world.desk
    for words in (
        ["add", "dora", "--role", "clerk"],
        ["change", "dora", "--name", "Dora"],
        ["remove", "dora"],
    ):
        assert await desk.json("members", *words) == await world.http("adam", "GET", "/api/members/dora")
    assert await desk.json("members", "restore", "dora") == await world.http(
        "adam", "GET", "/api/members/dora"
    )
    made = await desk.json("keys", "create", "--user", "robot", "--name", "import")
    by_http = await world.http("alice", "POST", "/api/keys", {"name": "import"})
    assert made.keys() == by_http.keys()
    del made["key"]
    (listed,) = (await world.http("adam", "GET", "/api/keys?user=robot"))["items"]
    assert made == listed
    result = await desk.run("secrets", "set", "erp", "--host", "erp.example", "--json", text="kT8vw-2fQ9xL")
    (secret,) = (await world.http("adam", "GET", "/api/secrets"))["items"]
    assert json.loads(result.stdout) == secret
    event = {"data": {"n": 1}, "cause": "evt-1"}
    for new in (True, False):
        by_http = await world.http("olga", "POST", f"/api/events/paid:{new}", event)
        by_cli = await desk.json("events", "emit", f"paid:{new}", "--cause", "evt-1", user="olga")
        assert (by_http, by_cli) == (
            {"key": f"paid:{new}", "new": True},
            {"key": f"paid:{new}", "new": False},
        )


async def test_settings_rules_chains_and_signing_secrets_are_the_same(world: World, tmp_path: Path) -> None:
    desk = world.desk
    for words in (["set", "budget=700"], ["set", "levels=[1, 2]"], ["unset", "budget"], ["show"]):
        shown = await desk.json("org", *words)
        assert shown == await world.http("adam", "GET", "/api/org")
    assert shown["settings"]["levels"] == [1, 2]
    rule = tmp_path / "rule.yaml"
    named = {**NOTICED, "entity_type": "expense", "name": "odd"}
    rule.write_text(json.dumps({**named, "condition": "entity.total > org.cap"}), encoding="utf-8")
    saved = await desk.json("rules", "save", rule)
    again = await world.http(
        "adam", "PUT", "/api/rules/expense/odd", {**NOTICED, "condition": "entity.total > org.cap"}
    )
    assert {**again, "updated_at": saved["updated_at"]} == saved
    assert [warning["code"] for warning in saved["warnings"]] == ["MISSING_SETTING"]
    shown = await world.http("adam", "GET", "/api/rules/expense/odd")
    assert await desk.json("rules", "show", "expense", "odd") == shown
    assert await desk.json("rules", "delete", "expense", "odd") == shown
    chain = tmp_path / "chain.yaml"
    chain.write_text(json.dumps({**CHAIN, "chain": "large"}), encoding="utf-8")
    saved = await desk.json("chains", "save", chain)
    assert saved == await world.http("adam", "GET", "/api/approval-chains/large")
    assert saved == await desk.json("chains", "show", "large")
    assert (await desk.json("signing-secrets", "rotate")).keys() == (
        await world.http("adam", "POST", "/api/signing-secrets/rotate")
    ).keys()
    assert await desk.json("signing-secrets", "retire") == {"retired": 1}
    assert await world.http("adam", "POST", "/api/signing-secrets/retire") == {"retired": 0}


async def test_health_is_the_same(full: World) -> None:
    by_http = await full.http("adam", "GET", "/api/operations/health")
    by_cli = await full.desk.json("health", "--org", "acme", code=1)
    for found in (by_http, by_cli):
        del found["at"]
        for queue in found["queues"]:
            del queue["oldest_s"]
    assert by_cli == by_http
    assert by_cli["dead_letters"]


async def test_definitions_are_the_same(world: World, tmp_path: Path) -> None:
    desk = world.desk
    older, newer = tmp_path / "older.flow.yaml", tmp_path / "newer.flow.yaml"
    older.write_text(json.dumps(LONELY), encoding="utf-8")
    newer.write_text(json.dumps(LONELY | {"version": 2, "timeout": "96h"}), encoding="utf-8")
    sources = {"sources": [{"name": str(older), "text": older.read_text(encoding="utf-8")}]}
    by_http = await world.http("adam", "POST", "/api/definitions/publish", sources)
    again = await world.http("adam", "POST", "/api/definitions/publish", sources)
    assert (by_http["publications"][0]["changed"], again["publications"][0]["changed"]) == (True, False)
    assert await desk.json("definitions", "publish", older, "--org", "acme") == again
    checked = await world.http("adam", "POST", "/api/definitions/check", sources)
    assert await desk.json("check", older) == checked
    published = await desk.json("definitions", "publish", newer, "--org", "acme")
    before, after = (found["publications"][0]["definition"]["id"] for found in (again, published))
    difference = await world.http("adam", "GET", f"/api/definitions/{before}/diff/{after}")
    assert await desk.json("diff", older, newer) == {"items": [difference], "next": None}
    listed = (await world.http("adam", "GET", "/api/definitions?limit=200"))["items"]
    mine = [version for version in listed if version["org_id"] == "acme"]
    by_cli = await desk.json("definitions", "list", "--org", "acme", "--all")
    key = lambda version: version["id"]  # noqa: E731
    assert sorted(by_cli["items"], key=key) == sorted(mine, key=key)


async def test_a_refusal_is_the_same_problem(world: World) -> None:
    async with world.people("alice") as client:
        replies = [
            problem(await client.post(f"/api/instances/{world.ids['instance']}/pause", json={}), 403),
            problem(await client.post("/api/flows/nothing/start", json={}), 404),
        ]
    refusals = [
        await world.desk.refusal("instances", "pause", world.ids["instance"], user="alice"),
        await world.desk.refusal("instances", "start", "nothing", user="alice"),
    ]
    for reply, refusal in zip(replies, refusals, strict=True):
        del reply["instance"]
        reply["problems"] = refusal["problems"] = []
        assert refusal == reply
