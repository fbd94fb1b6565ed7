"""Blank ids, keys, causes and names are refused by every door, and leave nothing behind."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from assent.effects.named_secrets import put_secret
from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.people.api_keys import create_api_key
from assent.people.members import set_capabilities
from assent.runtime.event_sources import create_event_source
from tests.cli.desk import Desk
from tests.http.application import app
from tests.http.callers import problem
from tests.world import ORG, rows

BLANKS = ["", " ", "\t", "\u00a0", "\u200b"]
ADMIN = Actor("adam", roles=frozenset({"admin"}), capabilities=frozenset({"*"}))
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)

TABLES = (
    "workflow_instances",
    "workflow_start_keys",
    "workflow_events_outbox",
    "workflow_outbox_receipts",
    "jobs",
    "task_keys",
    "entities",
    "event_sources",
    "named_secrets",
)
"""What a blank name would have left something in."""

PYTHON = {
    "start org": lambda run, blank: run.org(blank, ADMIN).instances.start("pair"),
    "start flow": lambda run, blank: run.org(ORG, ADMIN).instances.start(blank),
    "start key": lambda run, blank: run.org(ORG, ADMIN).instances.start("pair", idempotency_key=blank),
    "start partition": lambda run, blank: run.org(ORG, ADMIN, partition_id=blank).instances.start("pair"),
    "start_many org": lambda run, blank: run.org(blank, ADMIN).instances.start_many("pair", [{}]),
    "start_many flow": lambda run, blank: run.org(ORG, ADMIN).instances.start_many(blank, [{}]),
    "emit org": lambda run, blank: run.org(blank).events.emit("paid:7"),
    "emit key": lambda run, blank: run.org(ORG).events.emit(blank),
    "emit cause": lambda run, blank: run.org(ORG).events.emit("paid:7", cause=blank),
    "emit partition": lambda run, blank: run.org(ORG, partition_id=blank).events.emit("paid:7"),
    "submit org": lambda run, blank: run.org(blank).tasks.submit("report.build", {}),
    "submit type": lambda run, blank: run.org(ORG).tasks.submit(blank, {}),
    "submit key": lambda run, blank: run.org(ORG).tasks.submit("report.build", {}, key=blank),
    "push_result key": lambda run, blank: run.org(ORG).requests.push_result(UUID(int=7), blank, items=[]),
    "mutate org": lambda run, blank: run.org(blank, ADMIN).entities.mutate("expense.create", {}),
    "mutate action": lambda run, blank: run.org(ORG, ADMIN).entities.mutate(blank, {}),
    "mutate partition": lambda run, blank: run.org(ORG, ADMIN, partition_id=blank).entities.mutate(
        "expense.create", {}
    ),
}
"""Door and name → a call of the runtime with a blank in that place."""

OTHER_CODES = {
    "submit type": "UNKNOWN_TASK",
    "mutate action": "MISSING_KEY",
    "push_result key": "WRONG_TYPE",
}
"""Where the empty text, or every text that is not known, is refused for another reason."""

AS_OWNER = {
    "event source name": lambda c, blank: create_event_source(c, ORG, blank, "payment:", None, "adam", NOW),
    "event source prefix": lambda c, blank: create_event_source(c, ORG, "bank", blank, None, "adam", NOW),
    "secret name": lambda c, blank: put_secret(c, ORG, blank, "hunter22", ["erp.example"], "adam", NOW),
    "secret host": lambda c, blank: put_secret(c, ORG, "erp", "hunter22", [blank], "adam", NOW),
    "role": lambda c, blank: set_capabilities(c, ORG, blank, ["events:emit"], ADMIN),
    "API key name": lambda c, blank: create_api_key(c, ORG, "adam", blank, NOW),
}
"""The same for what is administered."""

HTTP: dict[str, Any] = {
    "start flow": ("POST", "/api/flows/{}/start", {}),
    "emit key": ("POST", "/api/events/{}", {}),
    "emit cause": ("POST", "/api/events/paid:7", {"cause": ...}),
    "task type": ("POST", "/api/tasks", {"type": ..., "input": {}}),
    "task key": ("POST", "/api/tasks", {"type": "report.build", "input": {}, "key": ...}),
    "result key": (
        "POST",
        "/api/outside-requests/00000000-0000-0000-0000-000000000007/results",
        {"key": ..., "items": []},
    ),
    "event source name": ("POST", "/api/event-sources", {"name": ..., "key_prefix": "p:"}),
    "event source prefix": ("POST", "/api/event-sources", {"name": "bank", "key_prefix": ...}),
    "secret name": ("PUT", "/api/secrets/{}", {"value": "hunter22", "hosts": ["erp.example"]}),
    "secret host": ("PUT", "/api/secrets/erp", {"value": "hunter22", "hosts": [...]}),
    "member id": ("POST", "/api/members", {"user_id": ..., "name": "Dora"}),
    "member name": ("POST", "/api/members", {"user_id": "dora", "name": ...}),
    "role": ("PUT", "/api/roles/{}", {"capabilities": []}),
    "API key name": ("POST", "/api/keys", {"name": ...}),
    "chain": ("PUT", "/api/approval-chains/{}", {"steps": []}),
}
"""What is named → method, path and body; the blank is in the path, or in the place of the ellipsis."""

CLI = {
    "start key": ("instances", "start", "pair", "--key", ...),
    "start flow": ("instances", "start", ...),
    "emit key": ("events", "emit", ...),
    "emit cause": ("events", "emit", "paid:7", "--cause", ...),
    "org": ("events", "emit", "paid:7", "--org", ...),
    "key name": ("keys", "create", "--user", "adam", "--name", ...),
    "member": ("members", "add", ...),
    "role": ("roles", "set", ..., "events:emit"),
}


async def contents(database):
    return [await rows(database, table) for table in TABLES]


def filled(given, blank):
    """The body with the blank in the place of the ellipsis."""
    if given is ...:
        return blank
    if isinstance(given, dict):
        return {name: filled(value, blank) for name, value in given.items()}
    return [filled(one, blank) for one in given] if isinstance(given, list) else given


@pytest.mark.parametrize("name", PYTHON)
async def test_python_refuses_a_blank_name(furnished, name):
    before = await contents(furnished)
    for blank in BLANKS:
        with pytest.raises(Refused) as caught:
            await PYTHON[name](app.runtime(furnished), blank)
        assert caught.value.code in {"BLANK", OTHER_CODES.get(name)}, (blank, caught.value)
    assert await contents(furnished) == before


@pytest.mark.parametrize("name", AS_OWNER)
async def test_administration_refuses_a_blank_name(furnished, name):
    for blank in BLANKS:
        with pytest.raises(Refused):
            async with furnished.transaction(None) as connection:
                await AS_OWNER[name](connection, blank)


@pytest.mark.parametrize("name", HTTP)
async def test_http_refuses_a_blank_name(people, furnished, name):
    """422 with the place; an empty part of a path is another route, and none."""
    method, path, body = HTTP[name]
    before = await contents(furnished)
    async with people("adam", roles=["admin"]) as client:
        for blank in BLANKS:
            answer = await client.request(
                method, path.format(quote(blank, safe="")), json=filled(body, blank)
            )
            expected = (404, 405, 307) if "{}" in path and not blank else (422,)
            assert answer.status_code in expected, (blank, answer.text)
            if answer.status_code == 422:
                (found, *_) = problem(answer, 422)["problems"]
                places = [name for name, value in body.items() if value in (..., [...])]
                assert found["path"][0] in (places or ["path"]), (blank, found)
    assert await contents(furnished) == before


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
async def test_http_refuses_a_blank_key_for_repeats(people, furnished, blank):
    async with people("adam") as client:
        headers = [(b"idempotency-key", blank.encode())]
        answer = await client.post("/api/flows/pair/start", json={}, headers=headers)
    assert problem(answer, 422)["problems"][0]["path"] == ["header", "Idempotency-Key"]
    assert await rows(furnished, "workflow_instances") == []


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
@pytest.mark.parametrize("claimed", ["org", "partition_id"])
async def test_http_refuses_a_token_with_a_blank_name(people, blank, claimed):
    async with people("adam", **{claimed: blank}) as client:
        answer = await client.get("/api/instances")
    assert problem(answer, 401)["code"] == "TOKEN_REFUSED"


@pytest.mark.parametrize("name", CLI)
async def test_command_line_refuses_a_blank_name(furnished, name):
    before = await contents(furnished)
    for blank in BLANKS:
        words = [blank if word is ... else word for word in CLI[name]]
        result = await Desk(furnished.url).run(*words, user="adam", code=None)
        assert result.exit_code in (1, 2), (blank, result.output)
        assert result.stderr, blank
        assert "Traceback" not in result.output
    assert await contents(furnished) == before


async def test_refusal_says_what_was_found(people, furnished):
    async with people("adam") as client:
        answer = await client.post("/api/events/paid:7", json={"cause": "\u200b"})
    (found,) = problem(answer, 422)["problems"]
    assert found["path"] == ["cause"]
    assert "visible characters" in found["message"]
    assert json.dumps("\u200b").strip('"') in json.dumps(found["message"])
