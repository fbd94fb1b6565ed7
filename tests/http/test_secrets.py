"""Secrets through HTTP: written and never read again, by those who may, and named by definitions of those who may."""

import pytest

from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from tests.http.callers import problem
from tests.http.test_definitions import ask, draft, give, leave, publish_together
from tests.world import rows

VALUE = "kT8vw-2fQ9xL"
ERP = {"value": VALUE, "hosts": ["erp.example"]}


def telling(text, flow="tell", header="Authorization"):
    hook = {"id": "tell", "type": "webhook_out", "url": "https://erp.example/x", "headers": {header: text}}
    steps = [hook, {"id": "done", "type": "terminal"}]
    return leave(flow=flow, start="tell", steps=steps, transitions=[{"from": "tell", "to": "done"}])


async def test_secret_is_kept_listed_without_its_value_and_deleted(people):
    kept = await ask(people, "adam", "PUT", "/api/secrets/erp", ERP)
    assert kept.status_code == 200, kept.text
    again = await ask(people, "adam", "PUT", "/api/secrets/erp", {**ERP, "hosts": ["*.erp.example"]})
    listed = await ask(people, "adam", "GET", "/api/secrets")
    assert [(one["name"], one["hosts"]) for one in listed.json()["items"]] == [("erp", ["*.erp.example"])]
    gone = await ask(people, "adam", "DELETE", "/api/secrets/erp")
    assert gone.json()["name"] == "erp"
    assert (await ask(people, "adam", "GET", "/api/secrets")).json()["items"] == []
    assert problem(await ask(people, "adam", "DELETE", "/api/secrets/erp"), 404)["code"] == "NOT_FOUND"
    assert not any(VALUE in answer.text for answer in (kept, again, listed, gone))


async def test_what_is_done_to_secrets_is_audited_without_the_value(people, furnished):
    await ask(people, "adam", "PUT", "/api/secrets/erp", ERP)
    await ask(people, "adam", "PUT", "/api/secrets/erp", {**ERP, "value": f"{VALUE}-2"})
    await ask(people, "adam", "DELETE", "/api/secrets/erp")
    entries = [row for row in await rows(furnished, "audit_log") if row["subject_kind"] == "secret"]
    found = sorted((row["action"], row["actor_id"], row["subject_id"]) for row in entries)
    assert found == [(f"secret.{verb}", "adam", "erp") for verb in ("change", "create", "delete")]
    assert VALUE not in str(entries)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/secrets", None),
        ("PUT", "/api/secrets/erp", ERP),
        ("DELETE", "/api/secrets/erp", None),
    ],
)
async def test_without_the_capability_nothing_is_shown_or_written(people, furnished, method, path, body):
    before = await rows(furnished, "named_secrets")
    refused = problem(await ask(people, "olga", method, path, body), 403)
    assert refused["detail"].endswith("it takes secrets:manage")
    assert await rows(furnished, "named_secrets") == before


@pytest.mark.parametrize(
    "body",
    [
        {**ERP, "value": "sh0rt"},
        {**ERP, "value": "two-long\nlines-of-it"},
        {**ERP, "value": ["kT8vw-2fQ9xL"]},
        {**ERP, "hosts": []},
        {**ERP, "hosts": ["https://erp.example/path"]},
        {**ERP, "hosts": ["*"]},
        {"value": VALUE},
    ],
)
async def test_what_is_no_secret_is_told_without_showing_it(people, body):
    answer = await ask(people, "adam", "PUT", "/api/secrets/erp", body)
    assert problem(answer, 422)["problems"]
    assert str(body["value"]) not in answer.text
    assert VALUE not in answer.text


async def test_secrets_are_one_orgs_own(people, furnished):
    await ask(people, "adam", "PUT", "/api/secrets/erp", ERP)
    assert (await ask(people, "adam", "GET", "/api/secrets", org="globex")).json()["items"] == []
    assert problem(await ask(people, "adam", "DELETE", "/api/secrets/erp", org="globex"), 404)
    assert len(await rows(furnished, "named_secrets")) == 1


async def test_naming_a_secret_takes_its_capability(people, furnished):
    refused = problem(await publish_together(people, telling("Bearer {secret.erp}")), 403)
    assert [found["message"] for found in refused["problems"]] == [
        "`tell` sends the secret erp, which takes secret:erp:use"
    ]
    await give(furnished, "secret:erp:use")
    assert (await publish_together(people, telling("Bearer {secret.erp}"))).status_code == 200
    assert problem(await publish_together(people, telling("{secret.other}", flow="b")), 403)


async def test_credential_is_not_published_nor_kept_as_a_draft(people, furnished):
    refused = problem(await publish_together(people, telling(f"Bearer {VALUE}")), 422)
    (found,) = refused["problems"]
    assert (found["code"], found["path"]) == ("LITERAL_CREDENTIAL", ["steps", 0, "headers", "Authorization"])
    kept = problem(await draft(people, telling(f"Bearer {VALUE}")), 422)
    assert [one["code"] for one in kept["problems"]] == ["LITERAL_CREDENTIAL"]
    assert VALUE not in str(await rows(furnished, "workflow_definitions"))


async def test_credential_that_was_published_before_is_not_shown(people, furnished, monkeypatch):
    """What an earlier release let in stays in the row, and is shown to nobody, whatever they may read."""
    with monkeypatch.context() as patched:
        patched.setattr("assent.compiler.credentials.is_credential", lambda _: False)
        async with furnished.transaction(None) as connection:
            first, second = [
                (await publish_flow(connection, "acme", source, SYSTEM, furnished.clock.now())).source.id
                for source in (telling(f"Bearer {VALUE}"), telling(f"Bearer {VALUE}-2") | {"version": 2})
            ]
    for path in (f"/api/definitions/{first}", f"/api/definitions/{first}/diff/{second}"):
        shown = await ask(people, "adam", "GET", path)
        assert shown.status_code == 200
        assert VALUE not in shown.text
    shown = (await ask(people, "adam", "GET", f"/api/definitions/{first}")).json()
    assert shown["source"]["steps"][0]["headers"] == {"Authorization": "[hidden]"}
