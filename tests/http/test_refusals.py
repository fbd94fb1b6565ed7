"""Refused sign-ins and refused commands leave a trace: a line, a count, and a row where a person was signed in."""

import logging
from uuid import uuid4

import pytest

from assent.telemetry.configure import stop_looking, use_metrics
from assent.telemetry.hooks import hooks
from tests.http.application import app
from tests.http.callers import CALLBACKS, PLACE, SETTINGS, bearer, client_of, problem, token
from tests.http.doors import create_app
from tests.http.process import server
from tests.world import rows

TAXI = {"data": {"title": "Taxi", "total": 1}}


@pytest.fixture
def counted():
    def page() -> str:
        return hooks.metrics.render()[0].decode()

    use_metrics()
    yield page
    stop_looking()


async def refusals(database):
    return [row for row in await rows(database, "audit_log") if row["action"] == "command.refused"]


async def test_a_refused_sign_in_is_a_line_and_a_count(door, caplog, counted):
    with caplog.at_level(logging.WARNING):
        async with client_of(door, bearer("ak_" + "x" * 43)) as client:
            await client.post("/api/entities/expense", json=TAXI)
        async with client_of(door) as client:
            await client.get("/api/instances")
    lines = [record for record in caplog.records if record.getMessage() == "sign-in refused"]
    assert [(line.code, line.place, line.method, line.path) for line in lines] == [
        ("API_KEY_REFUSED", PLACE, "POST", "/api/entities/expense"),
        ("NOT_SIGNED_IN", PLACE, "GET", "/api/instances"),
    ]
    assert "xxxx" not in caplog.text
    assert 'assent_http_refused_total{code="API_KEY_REFUSED",kind="sign_in"} 1.0' in counted()


async def test_a_flood_of_sign_ins_writes_no_flood_of_lines(furnished, caplog):
    door = create_app(app, furnished, SETTINGS.replace(rate_failed_sign_ins_per_minute=3), CALLBACKS)
    with caplog.at_level(logging.WARNING):
        async with client_of(door) as client:
            for _ in range(50):
                await client.get("/api/instances")
    assert len([record for record in caplog.records if record.getMessage() == "sign-in refused"]) == 3


async def test_a_refused_command_is_a_row_of_the_audit_log(people, furnished, caplog, counted):
    with caplog.at_level(logging.INFO):
        async with people("bob") as client:
            refused = await client.post(
                "/api/entities/expense", json=TAXI, headers={"Assent-Reason": "just trying"}
            )
    assert problem(refused, 403)["code"] == "POLICY_DENIED"
    (row,) = await refusals(furnished)
    assert (row["org_id"], row["actor_id"], row["actor_roles"]) == ("acme", "bob", ["approver"])
    assert (row["subject_kind"], row["subject_id"]) == ("command", "create_entity")
    assert row["details"] == {"code": "POLICY_DENIED", "path": "/api/entities/expense"}
    assert (row["place"], row["channel"], row["reason"]) == (PLACE, "http", "just trying")
    assert await rows(furnished, "entities") == []
    assert len([each for each in caplog.records if each.getMessage() == "command refused"]) == 1
    assert 'assent_http_refused_total{code="POLICY_DENIED",kind="command"} 1.0' in counted()
    async with people("adam") as client:
        (shown,) = (await client.get("/api/audit?action=command.refused")).json()["items"]
    assert (shown["actor_id"], shown["details"]["code"]) == ("bob", "POLICY_DENIED")


COMMANDS = [
    ("bob", "POST", "/api/entities/expense", TAXI, {}),
    ("alice", "PATCH", f"/api/entities/expense/{uuid4()}", {"data": {}}, {"If-Match": "*"}),
    ("alice", "PATCH", f"/api/entities/expense/{uuid4()}", {"data": {}}, {}),
    ("alice", "POST", f"/api/approvals/{uuid4()}/decide", {"answer": "approved"}, {}),
    ("alice", "POST", f"/api/approvals/{uuid4()}/decide", {"answer": "approved"}, {"Idempotency-Key": "k"}),
    ("alice", "POST", "/api/members", {"user_id": "x", "name": "X"}, {}),
    ("alice", "POST", "/api/keys", {"name": "x", "user": "robot"}, {}),
    ("alice", "POST", "/api/event-sources", {"name": "x", "key_prefix": "y"}, {}),
    ("alice", "POST", "/api/flows/nothing/start", {}, {}),
    ("alice", "POST", "/api/tasks", {"type": "report.build", "input": {}}, {}),
]


@pytest.mark.parametrize("command", COMMANDS)
async def test_there_is_one_row_for_each_refused_command(people, furnished, command):
    user, method, path, body, headers = command
    async with people(user) as client:
        answer = await client.request(method, path, json=body, headers=headers)
        assert answer.status_code in (403, 404, 422, 428), answer.text
        (row,) = await refusals(furnished)
        assert row["details"]["code"] == answer.json()["code"]
        if "Idempotency-Key" in headers:  # the same answer again is no other command
            await client.request(method, path, json=body, headers=headers)
            assert len(await refusals(furnished)) == 1


async def test_what_is_taken_read_or_too_many_is_no_row(furnished, clock):
    door = create_app(app, furnished, SETTINGS.replace(rate_entities_per_minute=2), CALLBACKS)
    async with client_of(door, bearer(token(clock.now(), "alice"))) as client:
        found = [(await client.post("/api/entities/expense", json=TAXI)).status_code for _ in range(20)]
        assert found == [201, 201] + [429] * 18
        assert (await client.get("/api/entities/dossier")).status_code == 403
        await client.post("/api/flows/pair/start", content=b"{")
    assert await refusals(furnished) == []


async def test_a_refused_command_is_of_its_org_only(people, furnished):
    async with people("bob", "globex") as client:
        await client.post("/api/entities/expense", json=TAXI)
    assert [row["org_id"] for row in await refusals(furnished)] == ["globex"]
    async with people("adam") as client:
        assert (await client.get("/api/audit?action=command.refused")).json()["items"] == []


async def test_each_request_is_a_line_of_the_log_without_what_is_secret(people, caplog):
    with caplog.at_level(logging.INFO):
        async with people("alice") as client:
            await client.get("/api/instances?subject=secret")
            await client.post("/callbacks/secret", content=b"secret")
    lines = [record for record in caplog.records if record.getMessage() == "request"]
    assert [(line.method, line.path, line.status, line.place) for line in lines] == [
        ("GET", "/api/instances", 200, PLACE),
        ("POST", "/callbacks/…", 401, PLACE),
    ]
    assert (lines[0].org, lines[0].actor) == ("acme", "alice")
    assert all("secret" not in str(vars(line)) for line in lines)


async def test_the_access_log_can_be_turned_off(furnished, clock, caplog):
    door = create_app(app, furnished, SETTINGS.replace(access_log="off"), CALLBACKS)
    with caplog.at_level(logging.INFO):
        async with client_of(door, bearer(token(clock.now(), "alice"))) as client:
            assert (await client.get("/api/instances")).status_code == 200
    assert [record for record in caplog.records if record.getMessage() == "request"] == []


async def test_a_server_writes_its_log_as_json(database_url):
    async with server(database_url, ASSENT_HTTP_ACCESS_LOG="on") as served, served.client("alice") as alice:
        await alice.get("/api/instances")
        line = await served.line("request")
    assert (line["path"], line["status"], line["actor"]) == ("/api/instances", 200, "alice")
