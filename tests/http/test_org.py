"""Settings, rules and signing secrets through HTTP and Python: by those who may, checked, tagged, audited."""

from collections.abc import Awaitable
from typing import Any

import pytest

from assent.app import App
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused
from assent.model.problems import Invalid
from assent.runtime.runtime import OrgRuntime
from assent.store.database import Database
from tests.http.application import RULE, app
from tests.http.callers import People, problem
from tests.world import ORG, grant, hire_with, rows

ADAM = Actor("adam", capabilities=frozenset({"org:manage", "rules:manage", "secrets:manage"}))
ROOT = Actor("root", capabilities=frozenset({"*"}))
CAP = {
    "action": "create",
    "timing": "before",
    "condition": "entity.total > org.cap",
    "outcome": "deny",
    "then": {"message": "over the cap of {org.cap}"},
}
EXPENSE = {"title": "Taxi", "total": 700}


async def ask(people: People, user: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
    async with people(user) as client:
        return await client.request(method, path, json=body, headers=headers)


async def test_settings_are_read_replaced_and_changed_by_their_tag(people: People) -> None:
    read = await ask(people, "adam", "GET", "/api/org")
    assert read.json()["settings"] == {"trusted_vendors": ["v-1"], "budget_owners": {}}
    tag = read.headers["etag"]
    saved = await ask(people, "adam", "PUT", "/api/org/settings", {"cap": 500}, **{"If-Match": tag})
    assert saved.json()["settings"] == {"cap": 500}
    assert saved.headers["etag"] != tag
    late = await ask(people, "adam", "PUT", "/api/org/settings", {"cap": 1}, **{"If-Match": tag})
    assert problem(late, 412)["code"] == "VERSION_CONFLICT"
    late = await ask(people, "adam", "PATCH", "/api/org/settings", {"cap": 1}, **{"If-Match": tag})
    assert problem(late, 412)["code"] == "VERSION_CONFLICT"
    changed = await ask(people, "adam", "PATCH", "/api/org/settings", {"cap": None, "retention_days": 30})
    assert changed.json()["settings"] == {"retention_days": 30}
    without = await ask(people, "adam", "PUT", "/api/org/settings", {})
    assert problem(without, 428)["code"] == "IF_MATCH_REQUIRED"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"retention_days": "thirty"}, "WRONG_TYPE"),
        ({"retention_days": 0}, None),
        ({"publish": "alone"}, None),
        ({"id": "globex"}, "BAD_NAME"),
        ({"Budget": 1}, "BAD_NAME"),
        ({"cap": 2**60}, None),
    ],
)
async def test_a_setting_that_is_not_valid_is_refused(
    people: People, furnished: Database, settings: dict[str, Any], code: str | None
) -> None:
    before = await rows(furnished, "orgs")
    refused = problem(await ask(people, "adam", "PATCH", "/api/org/settings", settings), 422)
    assert [found["path"] for found in refused["problems"]] == [list(settings)]
    assert code in (None, refused["problems"][0]["code"])
    assert await rows(furnished, "orgs") == before


async def test_settings_have_a_limit_of_bytes(people: People) -> None:
    refused = problem(await ask(people, "adam", "PATCH", "/api/org/settings", {"text": "x" * 70_000}), 422)
    assert refused["problems"][0]["code"] == "TOO_LARGE"


async def test_only_a_holder_of_everything_changes_who_publishes(people: People, furnished: Database) -> None:
    refused = await ask(people, "adam", "PATCH", "/api/org/settings", {"publish": "four_eyes"})
    assert problem(refused, 403)["code"] == "POLICY_DENIED"
    acme = app.runtime(furnished).org(ORG, ROOT)
    assert (await acme.settings.change({"publish": "four_eyes"})).settings["publish"] == "four_eyes"
    replaced = await ask(people, "adam", "PUT", "/api/org/settings", {}, **{"If-Match": "*"})
    assert problem(replaced, 403)["code"] == "POLICY_DENIED"


async def test_declared_settings_have_types_and_no_others_are_accepted(furnished: Database) -> None:
    declaring = App().setting("budget", {"type": "money", "min": 0})
    acme = declaring.runtime(furnished).org(ORG, ADAM)
    assert (await acme.settings.save({"budget": 7, "retention_days": 9})).settings["budget"] == 7
    with pytest.raises(Invalid) as wrong:
        await acme.settings.change({"budget": "much", "budgte": 1})
    assert [(found.code, found.path) for found in wrong.value.problems] == [
        ("WRONG_TYPE", ("budget",)),
        ("UNKNOWN_KEY", ("budgte",)),
    ]
    assert wrong.value.problems[1].hint == "did you mean `budget`?"


async def test_an_org_is_created_once(furnished: Database) -> None:
    runtime = app.runtime(furnished)
    made = await runtime.create_org("initech", "Initech", {"cap": 5})
    assert (made.org_id, made.name, made.settings) == ("initech", "Initech", {"cap": 5})
    with pytest.raises(Refused, match="already"):
        await runtime.create_org("initech")
    with pytest.raises(Refused, match="begin with"):
        await runtime.create_org("two words")
    audit = [row["action"] for row in await rows(furnished, "audit_log") if row["org_id"] == "initech"]
    assert audit == ["org.create"]


async def test_the_first_setting_of_an_org_without_a_row_makes_it(furnished: Database) -> None:
    new = app.runtime(furnished).org("newcomer", ADAM)
    assert (await new.settings.read()).created_at is None
    assert (await new.settings.change({"cap": 3})).created_at is not None
    assert (await new.settings.read()).settings == {"cap": 3}


async def test_a_rule_is_saved_with_a_warning_applied_and_deleted_with_its_history(people: People) -> None:
    saved = await ask(people, "adam", "PUT", "/api/rules/expense/cap", CAP)
    (warning,) = saved.json()["warnings"]
    assert (warning["code"], warning["path"]) == ("MISSING_SETTING", ["condition"])
    await ask(people, "adam", "PATCH", "/api/org/settings", {"cap": 500})
    assert (await ask(people, "adam", "PUT", "/api/rules/expense/cap", CAP)).json()["warnings"] == []
    denied = problem(await ask(people, "alice", "POST", "/api/entities/expense", {"data": EXPENSE}), 403)
    assert (denied["code"], denied["detail"]) == ("RULE_DENIED", "over the cap of 500")
    body = {"data": {**EXPENSE, "total": 5}}
    created = await ask(people, "alice", "POST", "/api/entities/expense", body)
    assert created.status_code == 201, created.text
    gone = (await ask(people, "adam", "DELETE", "/api/rules/expense/cap")).json()
    assert gone["then"] == CAP["then"]
    assert (await ask(people, "adam", "GET", "/api/rules")).json()["items"] == []
    history = (await ask(people, "adam", "GET", "/api/rules/expense/cap/evaluations")).json()["items"]
    found = (history[0]["entity_id"], history[0]["result"], history[0]["actor_id"])
    assert found == (created.json()["id"], False, "alice")
    assert history[0]["variables"] == {"entity.total": 5, "org.cap": 500}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"condition": "entity.colour == 1"}, "condition"),
        ({"action": "fly"}, "action"),
        ({"then": {}}, "outcome"),
        ({"timing": "during"}, "timing"),
        ({"speed": 1}, "speed"),
    ],
)
async def test_a_rule_that_could_not_be_applied_is_refused(
    people: People, change: dict[str, Any], path: str
) -> None:
    refused = problem(await ask(people, "adam", "PUT", "/api/rules/expense/cap", {**CAP, **change}), 422)
    assert refused["problems"][0]["path"][0] == path
    assert problem(await ask(people, "adam", "GET", "/api/rules/expense/cap"), 404)["code"] == "NOT_FOUND"


async def test_a_member_saves_no_rule_that_does_what_they_may_not(
    people: People, furnished: Database
) -> None:
    await hire_with(furnished, "rita", "rules:manage")
    sets = {**CAP, "outcome": "set", "then": {"title": "'mine'"}}
    emits = {**CAP, "outcome": "emit", "then": {"key": "payment:{entity.total}"}}
    for rule in (sets, emits):
        refused = problem(await ask(people, "rita", "PUT", "/api/rules/expense/mine", rule), 403)
        assert refused["code"] == "POLICY_DENIED"
    assert await rows(furnished, "workflow_rules") == []
    await hire_with(furnished, "rosa", "rules:manage", "expense:update", "events:emit")
    for rule in (sets, emits):
        saved = await ask(people, "rosa", "PUT", "/api/rules/expense/mine", rule)
        assert saved.status_code == 200, saved.text


async def test_evaluations_are_for_readers_of_the_entities_and_of_their_partition(
    people: People, furnished: Database
) -> None:
    await ask(people, "adam", "PATCH", "/api/org/settings", {"cap": 1_000})
    await ask(people, "adam", "PUT", "/api/rules/expense/cap", CAP)
    async with people("alice", partition_id="south") as client:
        made = await client.post("/api/entities/expense", json={"data": EXPENSE})
        assert made.status_code == 201, made.text
    for partition, count in (("south", 1), ("north", 0), (None, 1)):
        async with people("adam", partition_id=partition) as client:
            found = (await client.get("/api/rules/expense/cap/evaluations")).json()["items"]
            assert len(found) == count, partition
    hidden = await ask(people, "adam", "GET", "/api/rules/dossier/any/evaluations")
    assert problem(hidden, 403)["code"] == "POLICY_DENIED"


async def test_signing_secrets_are_rotated_shown_once_and_retired(
    people: People, furnished: Database
) -> None:
    first = await ask(people, "adam", "POST", "/api/signing-secrets/rotate", **{"Idempotency-Key": "k"})
    assert first.json()["secret"].startswith("whsec_")
    again = await ask(people, "adam", "POST", "/api/signing-secrets/rotate", **{"Idempotency-Key": "k"})
    assert problem(again, 409)["code"] == "SHOWN_ONCE"
    await ask(people, "adam", "POST", "/api/signing-secrets/rotate")
    assert (await ask(people, "adam", "POST", "/api/signing-secrets/retire")).json() == {"retired": 1}
    listed = (await ask(people, "adam", "GET", "/api/signing-secrets")).json()["items"]
    assert [one["retired_at"] is None for one in listed] == [True, False]
    entries = [row for row in await rows(furnished, "audit_log") if row["subject_kind"] == "effect_secret"]
    assert sorted(row["action"] for row in entries) == [
        "effect_secret.change",
        "effect_secret.create",
        "effect_secret.create",
    ]
    assert {row["actor_id"] for row in entries} == {"adam"}
    assert "whsec_" not in str(entries)


@pytest.mark.parametrize(
    ("request_", "body", "capability"),
    [
        ("GET /api/org", None, "org:manage"),
        ("PUT /api/org/settings", {}, "org:manage"),
        ("PATCH /api/org/settings", {}, "org:manage"),
        ("GET /api/rules", None, "rules:manage"),
        ("GET /api/rules/expense/cap", None, "rules:manage"),
        ("PUT /api/rules/expense/cap", RULE, "rules:manage"),
        ("DELETE /api/rules/expense/cap", None, "rules:manage"),
        ("GET /api/rules/expense/cap/evaluations", None, "rules:manage"),
        ("GET /api/signing-secrets", None, "secrets:manage"),
        ("POST /api/signing-secrets/rotate", None, "secrets:manage"),
        ("POST /api/signing-secrets/retire", None, "secrets:manage"),
    ],
)
async def test_each_route_takes_its_capability(
    people: People, request_: str, body: Any, capability: str
) -> None:
    method, path = request_.split()
    refused = problem(await ask(people, "olga", method, path, body, **{"If-Match": "*"}), 403)
    assert refused["detail"].endswith(f"it takes {capability}")


def _calls(commands: OrgRuntime) -> list[Awaitable[object]]:
    return [
        commands.settings.read(),
        commands.settings.change({"cap": 1}),
        commands.rules.list(),
        commands.rules.save({**CAP, "entity_type": "expense", "name": "cap"}),
        commands.rules.get("expense", "cap"),
        commands.rules.list_evaluations("expense", "cap"),
        commands.rules.delete("expense", "cap"),
        commands.secrets.set("erp", "kT8vw-2fQ9xL", ["erp.example"]),
        commands.secrets.list(),
        commands.secrets.delete("erp"),
        commands.signing_secrets.rotate(),
        commands.signing_secrets.list(),
        commands.signing_secrets.retire(),
    ]


async def test_python_asks_for_the_same_capabilities_and_the_operator_holds_all(furnished: Database) -> None:
    runtime = app.runtime(furnished)
    for call in _calls(runtime.org(ORG, Actor("olga"))):
        with pytest.raises(Refused, match="it takes"):
            await call
    for call in _calls(runtime.org(ORG)):
        await call
    audit = [row for row in await rows(furnished, "audit_log") if row["channel"] == "python"]
    assert {row["actor_id"] for row in audit} == {SYSTEM.id}


async def test_a_setting_is_written_with_the_callers_own_rows_or_not_at_all(furnished: Database) -> None:
    runtime = app.runtime(furnished)
    async with furnished.transaction(None) as connection:
        await grant(connection, {"unused": []})
        async with runtime.within(connection, ORG, ADAM) as acme:
            await acme.settings.change({"cap": 9})
    assert (await runtime.org(ORG, ADAM).settings.read()).settings["cap"] == 9
