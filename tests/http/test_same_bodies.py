"""HTTP and the command line show the same bodies: what `--json` prints is what HTTP returns for the same thing."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer
from typer.core import TyperGroup

from assent.cli.main import app as cli
from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from assent.worker.loop import exhaust
from assent.worker.nodes import Nodes
from assent.worker.tasks import Tasks
from tests.cli.desk import Desk, RemoteDesk, serving
from tests.http.application import CHAIN, INVOICE_DATA, SCHEDULE, app
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
    "entities list expense": ("alice", "/api/entities/expense"),
    "entities versions expense {expense}": ("alice", "/api/entities/expense/{expense}/versions"),
    "instances steps {instance}": ("alice", "/api/instances/{instance}/steps"),
    "event-sources list": ("adam", "/api/event-sources"),
    "outside-requests list": ("alice", "/api/outside-requests"),
    "entities audit expense {expense}": ("alice", "/api/entities/expense/{expense}/audit"),
    "inbox": ("bob", "/api/inbox"),
    "comments list expense {expense}": ("alice", "/api/entities/expense/{expense}/comments"),
    "questions list {request}": ("bob", "/api/approvals/{request}/questions"),
    "filters list": ("alice", "/api/filters"),
    "tasks list": ("adam", "/api/tasks"),
    "schedules list": ("adam", "/api/schedules"),
    "documents list": ("adam", "/api/documents"),
    "requirements list": ("adam", "/api/requirements"),
    "delegations list": ("bob", "/api/delegations"),
    "members list": ("adam", "/api/members"),
    "roles list": ("adam", "/api/roles"),
    "keys list": ("adam", "/api/keys?all=true"),
    "secrets list": ("adam", "/api/secrets"),
    "signing-secrets list": ("adam", "/api/signing-secrets"),
    "services list": ("adam", "/api/services"),
    "rules list": ("adam", "/api/rules"),
    "rules evaluations expense odd": ("adam", "/api/rules/expense/odd/evaluations"),
    "chains list": ("adam", "/api/approval-chains"),
    "resources list": ("adam", "/api/resources"),
    "mail-templates list": ("adam", "/api/mail-templates"),
    "audit": ("adam", "/api/audit"),
    "nodes": ("adam", "/api/nodes"),
    "incidents --each": ("adam", "/api/operations/incidents/all"),
    "dead-letters list": ("adam", "/api/operations/dead-letters"),
}
"""Commands that list → who asks, and the list of HTTP; `{name}` stands for an id of `full`."""
BY_COMMAND = {
    *("instances start", "instances advance", "instances pause", "instances resume", "instances retry"),
    *("instances cancel", "instances skip", "instances show", "instances count"),
    *("instances edit", "instances force-fail", "instances cancel-token"),
    *("instances stuck", "instances reenqueue", "instances path", "instances step"),
    *("entities create", "entities show", "entities change", "entities act", "entities transition"),
    *("filters show", "filters save", "filters delete"),
    *(
        "attachments list",
        "attachments add",
        "attachments download",
        "attachments remove",
        "attachments erase",
    ),
    *("comments add", "questions show", "questions ask", "questions answer"),
    *("entities diff", "entities count", "entities indexes", "entities contract"),
    *("tasks submit", "tasks show", "tasks cancel", "tasks retry"),
    *("tasks complete", "tasks fail", "tasks log", "tasks tree", "tasks submit-batch"),
    *("resources show",),
    *("schedules show", "schedules next", "schedules save", "schedules pause", "schedules resume"),
    *("schedules run", "schedules delete"),
    *("documents create", "documents show", "documents add-version", "documents verify"),
    *("documents reject", "documents erase", "documents upload", "documents download", "documents link"),
    *("outside-requests upload-link", "outside-requests revoke-links"),
    *("requirements create", "requirements show", "requirements waive", "requirements reset"),
    *("requirements codes", "requirements save-code", "requirements count", "requirements solicit"),
    *("verbs list", "verbs run"),
    *("delegations create", "delegations revoke"),
    *("forms show", "forms claim", "forms release", "forms save-draft", "forms reassign"),
    *("approvals show", "approvals decide", "approvals claim", "approvals release", "approvals reassign"),
    *("members add", "members change", "members remove", "members restore", "members show"),
    *("roles show", "roles save", "roles grant", "roles revoke"),
    *("event-sources create", "event-sources rotate", "event-sources retire", "event-sources delete"),
    *("outside-requests show", "outside-requests push"),
    *("drafts create", "drafts show", "drafts change", "drafts discard", "drafts publish"),
    *("definitions show", "definitions compare", "definitions archive", "definitions rollback"),
    *(
        "org show",
        "org partitions",
        "org set",
        "org unset",
        "rules show",
        "rules save",
        "rules delete",
        "chains show",
        "chains save",
    ),
    *("signing-secrets rotate", "signing-secrets retire"),
    "org test-alert",
    *("mail-templates show", "mail-templates save", "mail-templates delete", "mail-templates preview"),
    *("preferences show", "preferences set"),
    *("keys create", "keys revoke", "secrets set", "secrets delete", "events emit", "events list", "health"),
    *("check", "diff", "definitions list", "definitions publish"),
}
"""Commands that a test below compares with a reply."""
ONLY_HERE = {
    "org create": "for the operator of the database: a caller of HTTP belongs to one org",
    "profiles add": "for the file of a user",
    "profiles list": "for the file of a user",
    "profiles remove": "for the file of a user",
    "profiles use": "for the file of a user",
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
class BothDoors:
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


@pytest.fixture(params=["database", "server"])
async def world(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[BothDoors]:
    """The commands of `desk` work on the database itself, or call a server and know no database."""
    database = await Database.open(database_url, settings=DATABASE_SETTINGS)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(database.close)
        door = create_app(app, database, SETTINGS, CALLBACKS)
        desk = Desk(database_url, "tests.http.application:app")
        if request.param == "server":
            # On a database the operator acts where no member does; here their key has everything.
            await hire_with(database, "ann", "*")
            desk = RemoteDesk(await stack.enter_async_context(serving(door, SETTINGS)), database)
            for user in ("ann", "adam", "alice", "bob", "carol", "olga"):
                await desk.key_of(user)  # before what lists show
        world = BothDoors(database, People(door, database.clock.now()), desk)
        started = await world.started()
        world.ids = {"instance": started["id"], "request": started["steps"][0]["request_id"]}
        yield world


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
async def full(world: BothDoors) -> BothDoors:
    """Two items at least in every list."""
    await world.http("alice", "POST", "/api/flows/survey/start", {"order": "7"})
    await world.http("alice", "POST", "/api/flows/orders.approval/start", INPUT)
    for name in ("one", "two"):
        await world.http("alice", "POST", "/api/keys", {"name": name})
        secret = {"value": "kT8vw-2fQ9xL", "hosts": ["erp.example"]}
        await world.http("adam", "PUT", f"/api/secrets/{name}", secret)
        await world.http("adam", "POST", "/api/signing-secrets/rotate")
        await world.http("adam", "PUT", f"/api/rules/expense/{name}", NOTICED)
        await world.http("adam", "PUT", f"/api/schedules/{name}", SCHEDULE)
        await world.http("adam", "PUT", f"/api/approval-chains/{name}", CHAIN)
        await world.http("adam", "POST", "/api/tasks", {"type": "report.build", "input": {"month": name}})
        await world.http("adam", "POST", "/api/documents", {"document_type": "passport", "subject": name})
        await world.http("adam", "POST", "/api/requirements", {"subject": name, "doc_type": "passport"})
        await world.http("bob", "POST", "/api/delegations", {"to_user": "carol", "reason": name})
        source = {"name": name, "key_prefix": f"{name}:"}
        await world.http("adam", "POST", "/api/event-sources", source)
        await world.http("alice", "POST", "/api/flows/screening/start", {"client": name})
    for title in ("mine", "ours"):
        await world.http("alice", "PUT", f"/api/filters/expense/{title}", {"filter": {"state": ["draft"]}})
    await world.http("adam", "PUT", "/api/rules/expense/odd", NOTICED)
    for title in ("Taxi", "Train"):
        made = await world.http(
            "alice", "POST", "/api/entities/expense", {"data": {"title": title, "total": 7}}
        )
    path = f"/api/entities/expense/{made['id']}"
    await world.http("alice", "PATCH", path, {"data": {"total": 8}}, **{"If-Match": "*"})
    world.ids["expense"] = made["id"]
    for text in ("one", "two"):
        await world.http("alice", "POST", f"{path}/comments", {"text": text})
        asking = f"/api/approvals/{world.ids['request']}/questions"
        await world.http("bob", "POST", asking, {"text": text})
    dead = {"status": "dead", "attempts": 10, "error": "it broke", "instance_id": world.ids["instance"]}
    for _ in range(2):
        await Nodes(WorkerContext(world.database)).run_once()
    async with world.database.transaction(None) as connection:
        await insert_event(
            connection, org_id="acme", event_type="on_poke", payload_json={"cause": "x"}, **dead
        )
        await insert_effect(connection, org_id="acme", lane="mail", **dead)
        for name in ("ollama", "printer"):
            await connection.execute(
                "INSERT INTO assent.resources VALUES ($1, 2) ON CONFLICT DO NOTHING", name
            )
    return world


@pytest.mark.parametrize("words", BY_LIST)
async def test_lists_are_the_same_page_by_page(full: BothDoors, words: str) -> None:
    user, path = BY_LIST[words]
    words, path = words.format(**full.ids), path.format(**full.ids)
    whole = await full.http(user, "GET", f"{path}{'&' if '?' in path else '?'}limit=200")
    assert len(whole["items"]) > 1
    assert await full.desk.json(*words.split(), "--limit", 200, user=user) == whole
    first = await full.http(user, "GET", f"{path}{'&' if '?' in path else '?'}limit=1")
    assert first["next"] is not None
    assert await full.desk.json(*words.split(), "--limit", 1, user=user) == first
    rest = await full.desk.json(*words.split(), "--limit", 199, "--cursor", first["next"], user=user)
    assert first["items"] + rest["items"] == whole["items"]


async def test_count_of_instances_is_the_same_with_each_filter(full: BothDoors) -> None:
    counts = []
    for words, query in (
        ((), ""),
        (("--status", "running", "--status", "paused"), "?status=running&status=paused"),
        (("--status", "failed"), "?status=failed"),
        (("--workflow", "survey"), "?workflow=survey"),
    ):
        counted = await full.http("alice", "GET", f"/api/instances/count{query}")
        assert await full.desk.json("instances", "count", *words, user="alice") == counted
        listed = await full.http("alice", "GET", f"/api/instances{query}")
        assert counted == {"count": len(listed["items"]), "more": False}
        counts.append(counted["count"])
    assert counts[0] > counts[3] > counts[2] == 0


async def test_an_instance_is_the_same_after_every_command(world: BothDoors) -> None:
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


async def test_an_instance_that_stopped_is_the_same_after_repairs(world: BothDoors) -> None:
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


async def test_an_instance_is_the_same_after_an_operators_commands(world: BothDoors) -> None:
    desk, instance_id = world.desk, world.ids["instance"]
    await hire_with(world.database, "rob", "workflows:*")
    await desk.json("instances", "pause", instance_id, user="rob")
    words = ("instances", "edit", instance_id, "-d", 'order_id="18"')
    assert await desk.json(*words, user="rob") == await world.started()
    words = ("instances", "force-fail", instance_id, "--reason", "gone")
    assert await desk.json(*words, user="rob") == await world.started()
    pair = await world.start("pair", {}, "pair")
    async with world.database.transaction(None) as connection:
        token = await connection.fetchval(
            "SELECT token_id FROM assent.workflow_step_executions WHERE id = $1",
            UUID(pair["steps"][0]["step_id"]),
        )
    words = ("instances", "cancel-token", pair["id"], token)
    assert await desk.json(*words, user="rob") == await world.start("pair", {}, "pair")


async def test_an_instance_is_shown_with_the_bodies_of_its_parts(world: BothDoors) -> None:
    entity = await world.http("alice", "POST", "/api/entities/invoice", {"data": INVOICE_DATA})
    path = f"/api/entities/invoice/{entity['id']}"
    moved = await world.http("alice", "POST", f"{path}/transitions/submit")
    shown = await world.desk.json("instances", "show", moved["instance"]["id"], user="alice")
    assert shown["entity"] == await world.http("alice", "GET", path)
    assert shown["instance"] == await world.http("alice", "GET", f"/api/instances/{moved['instance']['id']}")
    assert shown["approvals"]
    for approval in shown["approvals"]:
        read = await world.http("alice", "GET", f"/api/approvals/{approval['id']}")
        # What the caller may answer is found for the one request that is read.
        assert {**approval, "answers": read["answers"], "refusal": read["refusal"]} == read
        assert approval["snapshot"]["number"] == INVOICE_DATA["number"]


async def test_the_way_of_an_instance_and_its_steps_are_the_same(world: BothDoors) -> None:
    started = await world.started()
    path, desk = f"/api/instances/{started['id']}", world.desk
    assert await desk.json("instances", "path", started["id"], user="alice") == await world.http(
        "alice", "GET", f"{path}/path"
    )
    (waiting,) = started["steps"]
    for user in ("alice", "olga"):
        shown = await desk.json("instances", "step", started["id"], waiting["step_id"], user=user)
        assert shown == await world.http(user, "GET", f"{path}/steps/{waiting['step_id']}")


async def test_an_entity_is_the_same_after_every_command(world: BothDoors) -> None:
    desk = world.desk
    made = await desk.json(
        "entities", "create", "expense", "-d", "title=Taxi", "-d", "total=77", user="alice"
    )
    path, named = f"/api/entities/expense/{made['id']}", ("expense", made["id"])
    assert made == await world.http("alice", "GET", path)
    await hire_with(world.database, "ron", "expense:round")
    for user, *words in (
        ("alice", "change", *named, "--version", 1, "-d", "total=78"),
        ("ron", "act", *named, "round", "-d", "to=10"),
    ):
        done = await desk.json("entities", *words, user=user)
        assert done == await world.http("alice", "GET", path)
    assert (done["version"], done["data"]["total"]) == (3, 70)
    assert await desk.json("entities", "show", *named, user="alice") == done
    compared = await desk.json("entities", "diff", *named, 1, 3, user="alice")
    assert compared == await world.http("alice", "GET", f"{path}/versions/1/diff/3")
    filtered = ["--state", "draft", "--created-by", "alice", "--created-since", "2020-01-01"]
    query = "state=draft&created_by=alice&created_since=2020-01-01T00:00:00%2B00:00"
    listed = await desk.json("entities", "list", "expense", *filtered, "--sort", "-updated_at", user="alice")
    assert listed == await world.http("alice", "GET", f"/api/entities/expense?{query}&sort=-updated_at")
    counted = await desk.json("entities", "count", "expense", *filtered, user="alice")
    assert counted == await world.http("alice", "GET", f"/api/entities/expense/count?{query}")
    assert counted["count"] == len(listed["items"]) > 0
    indexes = await desk.json("entities", "indexes", "expense", user="alice")
    assert indexes == await world.http("alice", "GET", "/api/entities/expense/indexes")
    contract = await desk.json("entities", "contract", "expense", user="alice")
    assert contract == await world.http("alice", "GET", "/api/entities/expense/contract")
    assert [field["name"] for field in contract["fields"]] == ["title", "total", "note", "posted_at"]
    data = [word for name, value in INVOICE_DATA.items() for word in ("-d", f"{name}={json.dumps(value)}")]
    ids = [(await desk.json("entities", "create", "invoice", *data, user="alice"))["id"] for _ in range(2)]
    by_cli = await desk.json("entities", "transition", "invoice", ids[0], "submit", user="alice")
    by_http = await world.http("alice", "POST", f"/api/entities/invoice/{ids[1]}/transitions/submit")
    assert by_cli.keys() == by_http.keys()
    assert by_cli["instance"].keys() == by_http["instance"].keys()
    assert by_cli["entity"] == await world.http("alice", "GET", f"/api/entities/invoice/{ids[0]}")


async def check_batch(world: BothDoors) -> None:
    """A batch is the same from a file as over HTTP, with its tree, and so is a resource that it uses."""
    month = {"type": "report.build", "input": {"month": "May"}, "resources": ["printer"]}
    batch = {"tasks": [month], "then": {"type": "report.build", "input": {"month": "all"}, "key": "all"}}
    words = ("tasks", "submit-batch", "-", "--json")
    submitted = json.loads((await world.desk.run(*words, user="adam", text=json.dumps(batch))).stdout)
    assert submitted == await world.http("adam", "POST", "/api/tasks/batches", batch)
    tree = await world.desk.json("tasks", "tree", submitted["id"], user="adam")
    assert tree == await world.http("adam", "GET", f"/api/tasks/{submitted['id']}/tree")
    assert [(one["status"], one["resources"]) for one in tree["tasks"]] == [
        ("blocked", []),
        ("queued", ["printer"]),
    ]
    shown = await world.desk.json("resources", "show", "printer", user="adam")
    assert shown == await world.http("adam", "GET", "/api/resources/printer")
    assert (shown["max_concurrency"], shown["running"], shown["waiting"]) == (1, 0, 1)


async def test_a_task_is_the_same_after_every_command(world: BothDoors) -> None:
    submit = ("tasks", "submit", "report.build", "-d", "month=May", "--key", "may")
    submitted = await world.desk.json(*submit, user="adam")
    again = {"type": "report.build", "input": {"month": "May"}, "key": "may"}
    assert submitted == await world.http("adam", "POST", "/api/tasks", again)
    path = f"/api/tasks/{submitted['id']}"
    for command in ("show", "cancel"):
        shown = await world.desk.json("tasks", command, submitted["id"], user="adam")
        assert shown == await world.http("adam", "GET", path)
    assert shown["status"] == "cancelled"
    for month in ("May", "logged"):
        noted = {"type": "report.build", "input": {"month": month}}
        task = await world.http("adam", "POST", "/api/tasks", noted)
        runtime = app.runtime(world.database)
        await exhaust(Tasks(WorkerContext(world.database, runtime=runtime)), lambda run: None)
        log = await world.desk.json("tasks", "log", task["id"], user="adam")
        assert log == await world.http("adam", "GET", f"/api/tasks/{task['id']}/log")
        assert [line["message"] for line in log["items"]] == (["bound it"] if month == "logged" else [])
    failing = await world.http(
        "adam", "POST", "/api/tasks", {"type": "report.build", "input": {"month": "never"}}
    )
    runtime = app.runtime(world.database)
    await exhaust(Tasks(WorkerContext(world.database, runtime=runtime)), lambda run: None)
    printed = {"type": "report.build", "input": {"month": "printed"}}
    for command, options in (("complete", ("-d", "pages=3")), ("fail", ("--message", "no paper"))):
        task = await world.http("adam", "POST", "/api/tasks", printed)
        await exhaust(Tasks(WorkerContext(world.database, runtime=runtime)), lambda run: None)
        ended = await world.desk.json("tasks", command, task["id"], *options, user="adam")
        assert ended == await world.http("adam", "GET", f"/api/tasks/{task['id']}")
        assert ended["status"] == {"complete": "done", "fail": "dead"}[command]
    await check_batch(world)
    retried = await world.desk.json("tasks", "retry", failing["id"], user="adam")
    assert retried == await world.http("adam", "GET", f"/api/tasks/{failing['id']}")
    assert retried["status"] == "queued"


async def test_a_document_is_the_same_after_every_command(world: BothDoors) -> None:
    await hire_with(world.database, "vera", "documents:*")
    made = await world.desk.json("documents", "create", "passport", "c-1", user="adam")
    path = f"/api/documents/{made['id']}"
    assert made == {"id": (await world.http("adam", "GET", path))["document"]["id"]}
    versions = [
        await world.desk.json("documents", "add-version", made["id"], "-d", "number=7", user="adam"),
        await world.http("adam", "POST", f"{path}/versions", {"structured_data": {"number": 8}}),
    ]
    assert versions[0].keys() == versions[1].keys()
    assert [one["version_no"] for one in versions] == [1, 2]
    first, second = (one["id"] for one in versions)
    for command in (
        ("verify", first),
        ("reject", second, "--code", "GLARE"),
        ("erase", first, "--reason", "asked"),
    ):
        done = await world.desk.json("documents", command[0], made["id"], *command[1:], user="vera")
        assert done == await world.http("vera", "GET", path)
    assert [one["status"] for one in done["versions"]] == ["rejected", "verified"]
    assert done == await world.desk.json("documents", "show", made["id"], user="vera")


async def test_a_requirement_is_the_same_after_every_command(world: BothDoors) -> None:
    made = await world.desk.json("requirements", "create", "c-1", "passport", user="adam")
    path = f"/api/requirements/{made['id']}"
    for command in (("waive", "--reason", "known"), ("reset", "--reason", "mistaken"), ("show",)):
        done = await world.desk.json("requirements", command[0], made["id"], *command[1:], user="adam")
        assert done == await world.http("adam", "GET", path)
    assert [one["type"] for one in done["events"]] == ["reset", "waived", "required"]
    texts = {"client_message": "It is folded.", "ops_message": "Folded.", "next_action": "Please unfold it."}
    options = [word for name, text in texts.items() for word in (f"--{name.replace('_', '-')}", text)]
    said = ("requirements", "save-code", "FOLDED", "--category", "quality", *options)
    saved = await world.desk.json(*said, user="adam")
    body = {"category": "quality", **texts}
    assert saved == await world.http("adam", "PUT", "/api/rejection-codes/FOLDED", body)
    codes = await world.desk.json("requirements", "codes", user="adam")
    assert codes == await world.http("adam", "GET", "/api/rejection-codes")
    asked = [
        await world.desk.json("requirements", "solicit", "c-1", "passport", user="adam"),
        await world.http(
            "adam", "POST", "/api/requirements/solicit", {"subject": "c-1", "doc_types": ["passport"]}
        ),
    ]
    assert asked[0].keys() == asked[1].keys()
    assert asked[0]["requirement_ids"] == asked[1]["requirement_ids"] == [made["id"]]
    counts = await world.desk.json("requirements", "count", "--subject", "c-1", user="adam")
    assert counts == await world.http("adam", "GET", "/api/requirements/count?subject=c-1")
    assert counts["statuses"]["requested"] == 1


async def test_a_verb_is_the_same_by_every_way(world: BothDoors) -> None:
    verbs = await world.desk.json("verbs", "list", user="adam")
    assert verbs == await world.http("adam", "GET", "/api/verbs")
    call = "(requirement.list :subject-entity-id $who)"
    found = await world.desk.json("verbs", "run", call, "-d", "who=c-1", user="adam")
    body = {"call": call, "variables": {"who": "c-1"}}
    assert found == await world.http("adam", "POST", "/api/verbs/run", body)


async def test_a_delegation_is_the_same_after_every_command(world: BothDoors) -> None:
    made = await world.desk.json("delegations", "create", "carol", "--entity-type", "invoice", user="bob")
    assert [made] == (await world.http("bob", "GET", "/api/delegations"))["items"]
    revoked = await world.desk.json("delegations", "revoke", made["id"], user="bob")
    assert [revoked] == (await world.http("bob", "GET", "/api/delegations"))["items"]
    assert revoked == await world.http("bob", "POST", f"/api/delegations/{made['id']}/revoke")


async def test_a_form_is_the_same_after_every_command(world: BothDoors) -> None:
    started = await world.http("alice", "POST", "/api/flows/survey/start", {"order": "7"})
    form = started["steps"][0]["step_id"]
    for words in (
        ["claim", form],
        ["save-draft", form, "-d", "rating=9"],
        ["release", form],
        ["reassign", form, "alice", "robot"],
        ["show", form],
    ):
        shown = await world.desk.json("forms", *words, user="alice")
        assert shown == await world.http("alice", "GET", f"/api/forms/{form}")
    assert shown["draft_problems"]


async def test_an_approval_is_the_same_after_every_command(world: BothDoors) -> None:
    request_id = world.ids["request"]
    path = f"/api/approvals/{request_id}"
    assert await world.desk.json("approvals", "show", request_id, user="bob") == await world.http(
        "bob", "GET", path
    )
    for words in (["claim"], ["release"], ["reassign", "bob", "max"], ["decide", "approved"]):
        command, *rest = words
        user = "carol" if command == "decide" else "bob"
        done = await world.desk.json("approvals", command, request_id, *rest, user=user)
        shown = await world.http("bob", "GET", path)
        of_reader = {name: shown.pop(name) for name in ("answers", "refusal")}
        assert bool(of_reader["answers"]) != bool(of_reader["refusal"])
        assert done == {"request": shown, "instance": await world.started()}


async def test_an_attachment_is_the_same_after_every_command(
    world: BothDoors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSENT_BLOBS", tmp_path.joinpath("files").as_uri())
    made = await world.http("alice", "POST", "/api/entities/expense", {"data": {"title": "Taxi", "total": 1}})
    path, named = f"/api/entities/expense/{made['id']}", ("expense", made["id"])
    file, out = tmp_path / "taxi.txt", tmp_path / "out.txt"
    file.write_text("12.50", encoding="utf-8")
    added = await world.desk.json("attachments", "add", *named, file, "--reason", "proof", user="alice")
    listed = await world.desk.json("attachments", "list", *named, user="alice")
    assert listed == await world.http("alice", "GET", f"{path}/attachments")
    assert listed == {"items": [added], "next": None}
    shown = await world.http("alice", "GET", path)
    assert (shown["version"], shown["attachments"]) == (2, {added["id"]: added["sha256"]})
    saved = await world.desk.json("attachments", "download", *named, added["id"], "--out", out, user="alice")
    assert (saved["sha256"], out.read_text(encoding="utf-8")) == (added["sha256"], "12.50")
    why = ("--reason", "the wrong one")
    removed = await world.desk.json("attachments", "remove", *named, added["id"], *why, user="alice")
    assert removed == await world.http("alice", "GET", path)
    assert (removed["version"], removed["attachments"]) == (3, {})
    erased = await world.desk.json("attachments", "erase", *named, added["id"], *why, user="adam")
    assert erased == {**added, "file_name": None, "is_erased": True}


async def test_a_comment_and_a_question_are_the_same_after_every_command(world: BothDoors) -> None:
    made = await world.http("alice", "POST", "/api/entities/expense", {"data": {"title": "Taxi", "total": 1}})
    added = await world.desk.json("comments", "add", "expense", made["id"], "fine, @bob?", user="alice")
    assert added["mentions"] == ["bob"]
    path = f"/api/entities/expense/{made['id']}/comments"
    assert [added] == (await world.http("alice", "GET", path))["items"]
    request_id = world.ids["request"]
    asked = await world.desk.json("questions", "ask", request_id, "Why?", "--to", "alice", user="bob")
    assert [asked] == (await world.http("bob", "GET", f"/api/approvals/{request_id}/questions"))["items"]
    answered = await world.desk.json("questions", "answer", asked["id"], "So.", user="alice")
    assert answered == await world.http("bob", "GET", f"/api/questions/{asked['id']}")
    assert answered == await world.desk.json("questions", "show", asked["id"], user="bob")


async def test_a_member_who_may_not_read_what_they_changed_is_shown_nothing(world: BothDoors) -> None:
    await hire_with(world.database, "pat", "approvals:reassign")
    path = f"/api/approvals/{world.ids['request']}/reassign"
    body = {"from_user": "bob", "to_user": "max"}
    assert await world.http("pat", "POST", path, body) is None
    words = ("approvals", "reassign", world.ids["request"], "carol", "fin")
    assert await world.desk.json(*words, user="pat") is None


async def test_members_keys_secrets_and_events_are_the_same(world: BothDoors) -> None:
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


async def test_settings_rules_chains_and_signing_secrets_are_the_same(
    world: BothDoors, tmp_path: Path
) -> None:
    desk = world.desk
    for words in (["set", "budget=700"], ["set", "levels=[1, 2]"], ["unset", "budget"], ["show"]):
        shown = await desk.json("org", *words)
        assert shown == await world.http("adam", "GET", "/api/org")
    assert shown["settings"]["levels"] == [1, 2]
    partitions = await desk.json("org", "partitions")
    assert partitions == await world.http("adam", "GET", "/api/org/partitions") == {"items": [], "next": None}
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


async def test_schedules_are_the_same(world: BothDoors, tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text(json.dumps(SCHEDULE), encoding="utf-8")
    path = "/api/schedules/nightly"

    async def said(*words: str) -> Any:
        return await world.desk.json("schedules", *words, user="adam")

    saved = await said("save", "nightly", str(file))
    again = await world.http("adam", "PUT", path, SCHEDULE)
    assert {**again, "updated_at": saved["updated_at"]} == saved
    assert await said("show", "nightly") == await world.http("adam", "GET", path)
    shown = await world.desk.run("schedules", "next", "nightly", "--count", "3", user="adam")
    assert len(shown.stdout.splitlines()) == 3
    assert await said("next", "nightly", "--count", "3") == await world.http(
        "adam", "GET", f"{path}/next?count=3"
    )
    for command in ("pause", "resume"):
        changed = await said(command, "nightly")
        assert changed == await world.http("adam", "GET", path)
        assert changed == await world.http("adam", "POST", f"{path}/{command}"), "it is so already"
        assert changed["paused"] == (command == "pause")
    submitted = await said("run", "nightly")
    assert submitted.keys() == (await world.http("adam", "POST", f"{path}/run")).keys()
    task = await world.http("adam", "GET", f"/api/tasks/{submitted['id']}")
    assert (task["type"], task["input"], task["submitted_by"]) == ("report.build", {"month": "May"}, "adam")
    gone = await said("delete", "nightly")
    await world.http("adam", "PUT", path, SCHEDULE)
    assert gone.keys() == (await world.http("adam", "DELETE", path)).keys()


async def test_mail_templates_and_preferences_are_the_same(world: BothDoors, tmp_path: Path) -> None:
    desk, path = world.desk, "/api/mail-templates/asked/de"
    file = tmp_path / "asked.yaml"
    file.write_text("subject: 'Bitte entscheiden: {what}'\n", encoding="utf-8")
    saved = await desk.json("mail-templates", "save", "asked", "de", file)
    assert (
        saved
        == await world.http("adam", "GET", path)
        == await desk.json("mail-templates", "show", "asked", "de")
    )
    assert (saved["own"], saved["variables"]["due"]) == (["subject"], "by when, in the person's time zone")
    await desk.json("org", "set", "alert_url=https://alerts.example.com/hook")
    assert (await desk.json("org", "test-alert")).keys() == (
        await world.http("adam", "POST", "/api/org/test-alert")
    ).keys()
    shown = await desk.json("mail-templates", "preview", "asked", "de", "--file", file)
    assert shown == await world.http("adam", "POST", f"{path}/preview", {})
    assert shown["subject"] == "Bitte entscheiden: Review: Order 7"
    again = await world.http("adam", "PUT", path, {"subject": "Bitte entscheiden: {what}"})
    assert {**again, "updated_at": "", "updated_by": ""} == {**saved, "updated_at": "", "updated_by": ""}
    assert await desk.json("mail-templates", "delete", "asked", "de") == again
    changed = await desk.json("preferences", "set", "--language", "de", "--mails", "daily", user="bob")
    assert changed == await world.http("bob", "GET", "/api/preferences")
    assert changed == await desk.json("preferences", "show", user="bob")
    patched = await world.http("bob", "PATCH", "/api/preferences", {"language": None, "digest_hour": 6})
    assert (patched["language"], patched["mails"], patched["digest_hour"]) == (None, "daily", 6)


async def test_health_is_the_same(full: BothDoors) -> None:
    by_http = await full.http("adam", "GET", "/api/operations/health")
    by_cli = await full.desk.json("health", *full.desk.named, code=1)
    for found in (by_http, by_cli):
        del found["at"]
        for queue in found["queues"]:
            del queue["oldest_s"]
    assert by_cli == by_http
    assert by_cli["dead_letters"]


async def test_definitions_are_the_same(world: BothDoors, tmp_path: Path) -> None:
    desk = world.desk
    older, newer = tmp_path / "older.flow.yaml", tmp_path / "newer.flow.yaml"
    older.write_text(json.dumps(LONELY), encoding="utf-8")
    newer.write_text(json.dumps(LONELY | {"version": 2, "timeout": "96h"}), encoding="utf-8")
    sources = {"sources": [{"name": str(older), "text": older.read_text(encoding="utf-8")}]}
    by_http = await world.http("adam", "POST", "/api/definitions/publish", sources)
    again = await world.http("adam", "POST", "/api/definitions/publish", sources)
    assert (by_http["publications"][0]["changed"], again["publications"][0]["changed"]) == (True, False)
    assert await desk.json("definitions", "publish", older, *desk.named) == again
    checked = await world.http("adam", "POST", "/api/definitions/check", sources)
    assert await desk.json("check", older) == checked
    published = await desk.json("definitions", "publish", newer, *desk.named)
    before, after = (found["publications"][0]["definition"]["id"] for found in (again, published))
    difference = await world.http("adam", "GET", f"/api/definitions/{before}/diff/{after}")
    assert await desk.json("diff", older, newer) == {"items": [difference], "next": None}
    listed = (await world.http("adam", "GET", "/api/definitions?limit=200"))["items"]
    mine = [version for version in listed if version["org_id"] == "acme" or not desk.named]
    by_cli = await desk.json("definitions", "list", *desk.named, "--all")
    key = lambda version: version["id"]  # noqa: E731
    assert sorted(by_cli["items"], key=key) == sorted(mine, key=key)


async def test_a_saved_filter_is_the_same(world: BothDoors, tmp_path: Path) -> None:
    desk, path = world.desk, "/api/filters/expense/mine"
    file = tmp_path / "filter.yaml"
    file.write_text("state: [draft]\nsort: -updated_at\n", encoding="utf-8")
    saved = await desk.json("filters", "save", "expense", "mine", str(file), user="alice")
    assert saved == await world.http("alice", "GET", path)
    assert saved == await desk.json("filters", "show", "expense", "mine", user="alice")
    listed = await desk.json("entities", "list", "expense", "--saved", "mine", user="alice")
    assert listed == await world.http("alice", "GET", "/api/entities/expense?saved=mine")
    counted = await desk.json("entities", "count", "expense", "--saved", "mine", user="alice")
    assert counted == await world.http("alice", "GET", "/api/entities/expense/count?saved=mine")
    assert await desk.json("filters", "delete", "expense", "mine", user="alice") == saved


async def test_a_version_is_the_same_after_every_command(world: BothDoors, tmp_path: Path) -> None:
    desk = world.desk
    first, second = (LONELY | {"flow": "turn", "version": number} for number in (1, 2))
    for flow in (first, second):
        sources = {"sources": [{"name": "turn", "text": json.dumps(flow)}]}
        published = await world.http("adam", "POST", "/api/definitions/publish", sources)
    (listed,) = [
        version
        for version in (await world.http("adam", "GET", "/api/definitions?key=turn"))["items"]
        if version["version"] == 1
    ]
    newer, path = published["publications"][0]["definition"]["id"], f"/api/definitions/{listed['id']}"
    shown = await desk.json("definitions", "show", listed["id"], user="adam")
    assert shown == await world.http("adam", "GET", path)
    compared = await desk.json("definitions", "compare", listed["id"], newer, user="adam")
    assert compared == await world.http("adam", "GET", f"{path}/diff/{newer}")
    drawn = await desk.run("definitions", "draw", listed["id"], user="adam")
    assert drawn.stdout.startswith("flowchart")
    back = await desk.json("definitions", "rollback", listed["id"], user="adam")
    assert back.keys() == {"definition", "effective", "changed"}
    archived = await desk.json("definitions", "archive", listed["id"], user="adam")
    assert archived["status"] == "archived"
    again = await world.http("adam", "GET", path)
    assert {name: value for name, value in again.items() if name != "source"} == archived
    refused = await desk.refusal("definitions", "show", listed["id"], user="bob")
    assert refused["code"] == "POLICY_DENIED"


async def test_a_draft_is_the_same_after_every_command(world: BothDoors, tmp_path: Path) -> None:
    desk, file = world.desk, tmp_path / "turn.flow.yaml"
    file.write_text(json.dumps(LONELY | {"flow": "turn"}), encoding="utf-8")
    made = await desk.json("drafts", "create", file, user="adam")
    path = f"/api/drafts/{made['id']}"
    assert made == await world.http("adam", "GET", path)
    assert await desk.json("drafts", "show", made["id"], user="adam") == made
    file.write_text(json.dumps(LONELY | {"flow": "turn", "timeout": "9h"}), encoding="utf-8")
    changed = await desk.json("drafts", "change", made["id"], file, "--version", made["tag"], user="adam")
    assert changed == await world.http("adam", "GET", path)
    assert changed["tag"] != made["tag"]
    stale = ("drafts", "publish", made["id"], "--version", made["tag"])
    assert (await desk.refusal(*stale, user="adam"))["code"] == "VERSION_CONFLICT"
    words = ("drafts", "publish", made["id"], "--version", changed["tag"])
    assert (await desk.json(*words, user="adam"))["changed"] is True
    other = await desk.json("drafts", "create", file, user="adam")
    gone = await desk.json("drafts", "discard", other["id"], user="adam")
    assert gone == {name: other[name] for name in gone}
    async with world.people("adam") as client:
        assert (await client.get(f"/api/drafts/{other['id']}")).status_code == 404


async def test_sources_and_outside_requests_are_the_same_after_every_command(world: BothDoors) -> None:
    desk = world.desk
    made = await desk.json("event-sources", "create", "erp", "stock:")
    rotated = await desk.json("event-sources", "rotate", "erp")
    assert made["secret"] != rotated.pop("secret")
    assert [rotated] == (await world.http("adam", "GET", "/api/event-sources"))["items"]
    retired = await desk.json("event-sources", "retire", "erp")
    assert (rotated["two_secrets"], retired["two_secrets"]) == (True, False)
    assert await desk.json("event-sources", "delete", "erp") == retired
    assert (await world.http("adam", "GET", "/api/event-sources"))["items"] == []
    await world.http("alice", "POST", "/api/flows/screening/start", {"client": "c-1"})
    (asked,) = (await world.http("alice", "GET", "/api/outside-requests"))["items"]
    path = f"/api/outside-requests/{asked['id']}"
    push = (
        "outside-requests",
        "push",
        asked["id"],
        "--key",
        "evt-1",
        "--item",
        "external://vault/7",
    )
    pushed = await desk.json(*push, user="olga")
    assert pushed == {"request_id": asked["id"], "key": "evt-1", "outcome": "accepted"}
    assert (await desk.json(*push, user="olga"))["outcome"] == "repeated"
    assert (await desk.refusal(*push, user="alice"))["code"] == "POLICY_DENIED"
    shown = await desk.json("outside-requests", "show", asked["id"], user="alice")
    assert shown == await world.http("alice", "GET", path)
    assert [delivery["key"] for delivery in shown["deliveries"]] == ["evt-1"]


async def test_roles_members_and_what_is_open_are_the_same(world: BothDoors) -> None:
    desk, path = world.desk, "/api/roles/reader"
    for words in (["save", "reader", "audit:read"], ["grant", "reader", "tasks:read"]):
        await world.http("adam", "GET", path)
        done = await desk.json("roles", *words)
        assert done == await world.http("adam", "GET", path) == await desk.json("roles", "show", "reader")
    assert done["capabilities"] == ["audit:read", "tasks:read"]
    taken = await desk.json("roles", "revoke", "reader", "audit:read")
    assert taken["capabilities"] == ["tasks:read"]
    shown = await desk.json("members", "show", "bob")
    assert shown == await world.http("adam", "GET", "/api/members/bob")
    made = await desk.json("keys", "create", "--user", "robot", "--name", "import")
    revoked = await desk.json("keys", "revoke", made["id"])
    assert [revoked] == (await world.http("adam", "GET", "/api/keys?user=robot"))["items"]
    await desk.run("secrets", "set", "erp", "--host", "erp.example", text="kT8vw-2fQ9xL")
    (secret,) = (await world.http("adam", "GET", "/api/secrets"))["items"]
    assert await desk.json("secrets", "delete", "erp") == secret
    instance_id = world.ids["instance"]
    enqueued = await desk.json("instances", "reenqueue", instance_id, user="olga")
    assert enqueued == {"instance_id": instance_id}
    opened = await desk.json("events", "list", user="olga")
    assert opened == await world.http("adam", "GET", "/api/operations/open")
    assert [item["instance_id"] for item in opened["items"]] == [instance_id]
    stuck = await desk.json("instances", "stuck", "--still-for", "1s", user="olga")
    assert stuck == await world.http("adam", "GET", "/api/operations/stuck?still_s=1")


async def test_a_refusal_is_the_same_problem(world: BothDoors) -> None:
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
