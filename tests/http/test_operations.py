"""Operations over HTTP: health, dead letters, stuck instances, and the repairs."""

from uuid import UUID, uuid4

import pytest

from assent.http.settings import HttpSettings
from assent.telemetry.configure import stop_looking
from tests.http.application import app
from tests.http.callers import AUDIENCE, ISSUER, SECRET, People, ask, client_of, problem
from tests.http.doors import create_app
from tests.rows import insert_effect, insert_event, update
from tests.world import rows


@pytest.fixture
async def started(people) -> str:
    """An instance that waits for bob or carol."""
    return (await ask(people, "alice", "POST", "/api/flows/orders.approval/start", {"order_id": "1"})).json()[
        "id"
    ]


@pytest.fixture
async def letters(furnished, started) -> dict[str, str]:
    """A dead event of the instance, a dead effect, and one of another org."""
    dead = {"status": "dead", "attempts": 10, "error": "it broke", "instance_id": started}
    async with furnished.transaction(None) as connection:
        event = await insert_event(
            connection, org_id="acme", event_type="on_poke", payload_json={"cause": "x"}, **dead
        )
        effect = await insert_effect(connection, org_id="acme", lane="mail", **dead)
        awaited = await insert_effect(connection, org_id="acme", lane="bank", awaited=True, **dead)
        await insert_event(connection, org_id="globex", **dead)
    return {"event": str(event["id"]), "effect": str(effect["id"]), "awaited": str(awaited["id"])}


async def test_health_says_how_the_org_goes(people, letters):
    found = (await ask(people, "adam", "GET", "/api/operations/health")).json()
    assert {queue["name"] for queue in found["queues"]} == {
        "events",
        "effects",
        "results",
        "tasks",
        "timers",
        "people",
    }
    assert {queue["name"]: queue["dead"] for queue in found["queues"]}["events"] == 1
    assert (found["healthy"], bool(found["problems"])) == (False, True)
    assert sum(count["number"] for count in found["dead_letters"]) == 3


async def test_dead_letters_of_both_kinds_are_one_list(people, letters):
    found = (await ask(people, "adam", "GET", "/api/operations/dead-letters")).json()["items"]
    assert {letter["id"]: letter["kind"] for letter in found} == {
        letters["event"]: "event",
        letters["effect"]: "effect",
        letters["awaited"]: "effect",
    }
    assert {letter["error"] for letter in found} == {"it broke"}
    (event,) = (await ask(people, "adam", "GET", "/api/operations/dead-letters?kind=event")).json()["items"]
    assert event["id"] == letters["event"]
    seen, cursor = [], ""
    while cursor is not None:
        page = (await ask(people, "adam", "GET", f"/api/operations/dead-letters?limit=1{cursor}")).json()
        seen += page["items"]
        cursor = page["next"] and f"&cursor={page['next']}"
    assert seen == found


async def test_a_dead_letter_is_tried_again(people, letters, furnished):
    for kind in ("effect", "event"):
        path = f"/api/operations/dead-letters/{letters[kind]}/retry"
        assert (await ask(people, "adam", "POST", path)).json() == {"id": letters[kind], "kind": kind}
        assert problem(await ask(people, "adam", "POST", path), 404)["code"] == "NOT_FOUND"
    awaited = await ask(people, "adam", "POST", f"/api/operations/dead-letters/{letters['awaited']}/retry")
    assert problem(awaited, 409)["code"] == "EFFECT_WAS_AWAITED"
    status = {str(row["id"]): row["status"] for row in await rows(furnished, "jobs")}
    assert status == {letters["effect"]: "queued", letters["awaited"]: "dead"}


async def test_a_dead_letter_is_discarded_with_a_reason(people, letters, furnished):
    for kind in ("effect", "event"):
        path = f"/api/operations/dead-letters/{letters[kind]}/discard"
        assert problem(await ask(people, "adam", "POST", path, {"reason": ""}), 422)
        done = await ask(people, "adam", "POST", path, {"reason": "It was paid by hand"})
        assert done.json() == {"id": letters[kind], "kind": kind}
        again = await ask(people, "adam", "POST", path, {"reason": "It was paid by hand"})
        assert problem(again, 404)["code"] == "NOT_FOUND"
    (left,) = (await ask(people, "adam", "GET", "/api/operations/dead-letters")).json()["items"]
    assert left["id"] == letters["awaited"]
    path = f"/api/operations/dead-letters/{letters['awaited']}/discard"
    assert problem(await ask(people, "alice", "POST", path, {"reason": "no"}), 403)["code"] == "POLICY_DENIED"
    await ask(people, "adam", "POST", path, {"reason": "The bank was called"})
    assert (await ask(people, "adam", "GET", "/api/operations/dead-letters")).json()["items"] == []
    (entry,) = [row for row in await rows(furnished, "audit_log") if row["action"] == "event.discard"]
    assert (entry["actor_id"], entry["details"]) == ("adam", {"reason": "It was paid by hand"})
    (event,) = [
        row for row in await rows(furnished, "workflow_events_outbox") if str(row["id"]) == letters["event"]
    ]
    assert (event["status"], event["error"]) == ("completed", "discarded: it broke")


@pytest.fixture
async def paused(furnished, started) -> str:
    """The instance, paused by an error at a step."""
    incident = {"code": "URL_MISSING", "message": "no url", "node": "tell"}
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_instances SET status = 'paused', incident = $2 WHERE org_id = 'acme' AND id = $1",
            UUID(started),
            incident,
        )
    return started


async def test_incidents_are_grouped_by_error_and_listed_with_the_commands_that_help(
    people, paused, furnished
):
    async with furnished.transaction(None) as connection:
        effect = await insert_effect(connection, org_id="acme", lane="mail", status="dead", attempts=1)
        await insert_effect(connection, org_id="globex", lane="mail", status="dead", attempts=1)
    groups = (await ask(people, "adam", "GET", "/api/operations/incidents")).json()["items"]
    found = {(group["kind"], group["code"], group["node"], group["number"]) for group in groups}
    assert {("instance", "URL_MISSING", "tell", 1)} < found
    assert len(groups) == 2
    path = "/api/operations/incidents/all"
    (one,) = (await ask(people, "adam", "GET", f"{path}?code=URL_MISSING&node=tell")).json()["items"]
    assert (one["id"], one["definition"], one["definition_version"]) == (paused, "orders.approval", 1)
    routes = {way["name"]: way["route"] for way in one["ways_out"]}
    assert routes["retry"] == f"/api/instances/{paused}/retry"
    (letter,) = (await ask(people, "adam", "GET", f"{path}?kind=effect")).json()["items"]
    assert letter["id"] == str(effect["id"])
    page = (await ask(people, "adam", "GET", f"{path}?limit=1")).json()
    more = (await ask(people, "adam", "GET", f"{path}?limit=1&cursor={page['next']}")).json()
    assert {page["items"][0]["id"], more["items"][0]["id"]} == {paused, str(effect["id"])}
    assert more["next"] is None
    health = (await ask(people, "adam", "GET", "/api/operations/health")).json()
    assert (health["status"], [each["code"] for each in health["incidents"]]) == ("degraded", ["URL_MISSING"])


async def test_variables_of_a_paused_instance_are_edited_and_a_step_is_skipped(people, paused, furnished):
    routes = f"/api/operations/instances/{paused}"
    body = {"variables": {"order_id": "2"}, "reason": "a typing error"}
    assert (
        problem(await ask(people, "alice", "POST", f"{routes}/variables", body), 403)["code"]
        == "POLICY_DENIED"
    )
    wrong = await ask(people, "adam", "POST", f"{routes}/variables", {"variables": {"order_id": 2}})
    assert problem(wrong, 422)["code"] == "WRONG_TYPE"
    done = (await ask(people, "adam", "POST", f"{routes}/variables", body)).status_code
    assert done in (200, 204)
    (row,) = [row for row in await rows(furnished, "workflow_instances") if str(row["id"]) == paused]
    assert (row["context_json"]["order_id"], "adam" in row["originators"]["ids"]) == ("2", True)
    skip = await ask(people, "adam", "POST", f"{routes}/skip", {"step": "nowhere", "edge": "a->b"})
    assert problem(skip, 422)["code"] == "STEP_NOT_FOUND"
    token = await ask(people, "adam", "POST", f"{routes}/cancel-token", {"token": "9.9"})
    assert problem(token, 422)["code"] == "TOKEN_NOT_FOUND"


@pytest.mark.parametrize("path", ["/api/operations/incidents", "/api/operations/incidents/all"])
async def test_incidents_take_a_capability(people, path):
    assert problem(await ask(people, "alice", "GET", path), 403)["code"] == "POLICY_DENIED"


@pytest.fixture
async def stuck(furnished, started, clock) -> str:
    """The instance, whose one step somebody ended beneath it."""
    async with furnished.transaction(None) as connection:
        (step,) = await connection.fetch(
            "SELECT org_id, id FROM assent.workflow_step_executions"
            " WHERE org_id = 'acme' AND instance_id = $1 AND status = 'pending'",
            started,
        )
        await update(connection, "workflow_step_executions", step, status="cancelled")
    clock.advance("30m")
    return started


async def test_what_is_stuck_is_listed(people, stuck, clock):
    async with people("adam") as client:
        (found,) = (await client.get("/api/operations/stuck?still_s=900")).json()["items"]
        assert (found["instance_id"], found["current_nodes"]) == (stuck, ["review"])
        assert (await client.get("/api/operations/stuck?still_s=7200")).json()["items"] == []
        health = (await client.get("/api/operations/health")).json()
        assert [one["instance_id"] for one in health["stuck"]] == [stuck]


async def test_a_row_that_somebody_touched_is_rebuilt_from_its_steps(people, started, furnished):
    path = f"/api/operations/instances/{started}/rebuild"
    assert (await ask(people, "adam", "POST", path)).json() == {"instance_id": started, "changed": False}
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_instances SET context_json = jsonb_build_object('order_id', 'other')"
            " WHERE org_id = 'acme' AND id = $1",
            started,
        )
    assert (await ask(people, "adam", "POST", path)).json()["changed"] is True
    shown = (await ask(people, "alice", "GET", f"/api/instances/{started}")).json()
    assert shown["context"]["order_id"] == "1"


async def test_a_worker_is_told_to_look_again(people, started, furnished):
    answer = await ask(people, "adam", "POST", f"/api/operations/instances/{started}/reenqueue")
    assert answer.status_code == 202
    (event,) = await rows(furnished, "workflow_events_outbox")
    assert (str(event["instance_id"]), event["event_type"], event["status"]) == (
        started,
        "on_poke",
        "pending",
    )


async def test_what_cannot_be_helped_is_failed_with_a_reason(people, started):
    path = f"/api/operations/instances/{started}/force-fail"
    assert problem(await ask(people, "adam", "POST", path, {"reason": ""}), 422)
    assert (await ask(people, "adam", "POST", path, {"reason": "gone"})).json()["status"] == "failed"
    assert (
        problem(await ask(people, "adam", "POST", path, {"reason": "gone"}), 409)["code"]
        == "WORKFLOW_NOT_ACTIVE"
    )
    assert (await ask(people, "bob", "GET", "/api/inbox")).json()["items"] == []


ROUTES = [
    ("GET", "/api/operations/health"),
    ("GET", "/api/operations/dead-letters"),
    ("POST", "/api/operations/dead-letters/{event}/retry"),
    ("GET", "/api/operations/stuck"),
    ("POST", "/api/operations/instances/{instance}/rebuild"),
    ("POST", "/api/operations/instances/{instance}/reenqueue"),
    ("POST", "/api/operations/instances/{instance}/force-fail"),
]


async def test_operating_is_for_operators(people, letters, started, furnished):
    tables = ("workflow_instances", "workflow_events_outbox", "workflow_step_executions")
    before = [await rows(furnished, table) for table in tables]
    for method, path in ROUTES:
        body = {"reason": "mine"} if path.endswith("fail") else None
        refused = await ask(people, "alice", method, path.format(instance=started, **letters), body)
        assert problem(refused, 403)["code"] == "POLICY_DENIED", path
    assert [await rows(furnished, table) for table in tables] == before


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_whoever_sees_one_partition_operates_no_other(people, letters, started, method, path):
    body = {"reason": "mine"} if path.endswith("fail") else None
    path = path.format(instance=started, **letters)
    answer = await ask(people, "adam", method, path, body, partition_id="north")
    if method == "POST":
        assert problem(answer, 404)["code"] == "NOT_FOUND"
    else:
        assert answer.status_code == 200
        assert not [one for one in (started, *letters.values()) if one in answer.text]


async def test_an_instance_that_is_none_is_not_repaired(people, furnished):
    for verb, body in (("rebuild", None), ("reenqueue", None), ("force-fail", {"reason": "x"})):
        refused = await ask(people, "adam", "POST", f"/api/operations/instances/{uuid4()}/{verb}", body)
        assert problem(refused, 404)["code"] == "NOT_FOUND"
    assert await rows(furnished, "workflow_events_outbox") == []


def door_with(database, metrics, **more):
    settings = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, metrics=metrics, **more)
    return create_app(app, database, settings)


@pytest.fixture
def _looking_no_more():
    yield
    stop_looking()


@pytest.mark.usefixtures("_looking_no_more")
async def test_metrics_are_shown_to_those_whom_the_settings_name(furnished, clock):
    seen = {}
    for metrics in ("off", "operators", "everybody"):
        door = door_with(furnished, metrics)
        people = People(door, clock.now())
        async with client_of(door) as nobody, people("alice") as alice, people("adam") as adam:
            seen[metrics] = [(await client.get("/metrics")).status_code for client in (nobody, alice, adam)]
    assert seen == {"off": [404] * 3, "operators": [401, 403, 200], "everybody": [200] * 3}


@pytest.mark.usefixtures("_looking_no_more")
async def test_metrics_are_a_page_for_prometheus(furnished, letters):
    async with client_of(door_with(furnished, "everybody")) as client:
        page = await client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    assert "assent_" in page.text


@pytest.mark.usefixtures("_looking_no_more")
async def test_metrics_are_asked_for_within_limits_and_for_operators_only_while_they_can_sign_in(
    furnished, clock
):
    people = People(door_with(furnished, "operators", rate_reads_per_minute=1), clock.now())
    async with people("adam") as adam:
        assert [(await adam.get("/metrics")).status_code for _ in range(2)] == [200, 429]
        clock.advance("1m")
        await furnished.close()
        assert problem(await adam.get("/metrics"), 503)["code"] == "UNAVAILABLE"
