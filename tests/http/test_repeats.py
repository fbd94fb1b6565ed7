"""Keys for repeats: nothing is done twice, whoever crashes, and nobody reads another's answer."""

import asyncio

import pytest

from tests.http.callers import problem
from tests.world import rows

EXPENSES = "/api/entities/expense"
COMMITS_FAIL = """
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE disk_full USING MESSAGE = 'no space';
END
$$;
CREATE CONSTRAINT TRIGGER commits_fail AFTER INSERT ON assent.entity_versions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.fail();
"""
TAXI = {"data": {"title": "Taxi", "total": 1000}}


async def create(people, key, body=TAXI, user="alice", path=EXPENSES, **more):
    async with people(user, **more) as client:
        return await client.post(path, json=body, headers={"Idempotency-Key": key})


async def test_the_same_key_and_body_give_the_same_answer_to_the_byte(people, furnished):
    first, second = await create(people, "k1"), await create(people, "k1")
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert first.status_code == 201
    for header in ("etag", "location", "content-type"):
        assert first.headers[header] == second.headers[header]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert len(await rows(furnished, "entities")) == 1


async def test_the_same_key_with_another_request_is_refused(people, furnished):
    await create(people, "k1")
    other_body = await create(people, "k1", {"data": {"title": "Bus", "total": 5}})
    other_path = await create(people, "k1", {}, path="/api/flows/pair/start")
    assert [problem(found, 422)["code"] for found in (other_body, other_path)] == [
        "IDEMPOTENCY_KEY_REUSED"
    ] * 2
    assert len(await rows(furnished, "entities")) == 1
    assert await rows(furnished, "workflow_instances") == []


async def test_another_version_is_another_request(people):
    place = (await create(people, "k1")).headers["location"]
    async with people("alice") as client:
        headers = {"Idempotency-Key": "k2", "If-Match": '"1"'}
        changed = await client.patch(place, json={"data": {"total": 7}}, headers=headers)
        again = await client.patch(place, json={"data": {"total": 7}}, headers=headers)
        assert (changed.status_code, again.content) == (200, changed.content)
        other = await client.patch(place, json={"data": {"total": 7}}, headers={**headers, "If-Match": '"2"'})
    assert problem(other, 422)["code"] == "IDEMPOTENCY_KEY_REUSED"


async def test_a_key_is_only_its_callers(people, furnished):
    """Otherwise one could guess another's key and read their answer."""
    first = await create(people, "k1")
    others = [
        await create(people, "k1", user="robot"),
        await create(people, "k1", org="globex"),
    ]
    assert {found.status_code for found in others} == {201}
    assert len({found.json()["id"] for found in (first, *others)}) == 3


async def test_of_requests_at_once_one_runs_and_all_get_its_answer(people, furnished):
    answers = await asyncio.gather(*(create(people, "k1") for _ in range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert len(await rows(furnished, "entities")) == 1


async def test_a_refusal_is_an_answer_too(people, furnished):
    first = await create(people, "k1", {"data": {"total": "much"}})
    second = await create(people, "k1", {"data": {"total": "much"}})
    assert (problem(first, 422), second.content) == (first.json(), first.content)
    assert second.headers["idempotent-replayed"] == "true"


async def test_a_request_that_never_came_in_leaves_the_key_free(people):
    """Nobody was signed in, or the body had no form: nothing was asked yet."""
    async with people("alice") as client:
        headers = {"Idempotency-Key": "k1"}
        assert (await client.post(EXPENSES, json={}, headers=headers)).status_code == 422
    assert (await create(people, "k1")).status_code == 201


async def test_what_was_not_done_was_not_answered(people, furnished):
    """The COMMIT of the command fails: then its reply is not kept either, and it runs when it is asked again."""
    async with furnished.transaction(None) as connection:
        await connection.execute(COMMITS_FAIL)
    assert problem(await create(people, "k1"), 503)["code"] == "UNAVAILABLE"
    assert (await rows(furnished, "entities"), await rows(furnished, "http_replies")) == ([], [])
    async with furnished.transaction(None) as connection:
        await connection.execute("DROP TRIGGER commits_fail ON assent.entity_versions")
    again = await create(people, "k1")
    assert (again.status_code, "idempotent-replayed" in again.headers) == (201, False)
    assert len(await rows(furnished, "entities")) == 1


async def test_what_was_not_answered_was_not_done(people, furnished):
    """The reply cannot be kept: then the command has not happened either, and runs when it is asked again."""
    async with furnished.transaction(None) as connection:
        await connection.execute(
            "ALTER TABLE assent.http_replies ADD CONSTRAINT no_space CHECK (org_id <> 'acme') NOT VALID"
        )
    assert problem(await create(people, "k1"), 500)["code"] == "UNEXPECTED"
    assert await rows(furnished, "entities") == []
    async with furnished.transaction(None) as connection:
        await connection.execute("ALTER TABLE assent.http_replies DROP CONSTRAINT no_space")
    assert (await create(people, "k1")).status_code == 201
    assert len(await rows(furnished, "entities")) == 1


async def test_the_same_body_to_another_path_is_another_request(people, furnished):
    await create(people, "k1")
    other = await create(people, "k1", path="/api/entities/dossier")
    assert problem(other, 422)["code"] == "IDEMPOTENCY_KEY_REUSED"


async def test_a_start_under_a_key_starts_once(people, furnished):
    answers = [await create(people, "k1", {"a": 1}, path="/api/flows/pair/start") for _ in range(3)]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(await rows(furnished, "workflow_instances")) == 1


async def test_a_decision_under_a_key_is_made_once(people, furnished):
    async with people("alice") as client:
        found = (await client.post("/api/flows/orders.approval/start", json={"order_id": "1"})).json()
    path = f"/api/approvals/{found['steps'][0]['request_id']}/decide"
    answers = [await create(people, "k1", {"answer": "approved"}, "bob", path) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert len(await rows(furnished, "approval_decisions")) == 1


async def test_a_key_is_forgotten_after_its_time_and_the_rows_go(people, furnished, clock):
    await create(people, "k1")
    for number in range(30):
        await create(people, f"old-{number}")
    clock.advance("23h")
    assert (await create(people, "k1", exp=clock.now().timestamp() + 3600)).headers["idempotent-replayed"]
    clock.advance("1h")
    later = {"exp": clock.now().timestamp() + 3600}
    again = await create(people, "k1", {"data": {"title": "Bus", "total": 5}}, **later)
    assert again.status_code == 201
    assert "idempotent-replayed" not in again.headers
    await create(people, "k2", **later)
    assert len(await rows(furnished, "http_replies")) == 2


@pytest.mark.parametrize("key", ["", "k" * 256, "two words", "ümlaut"])
async def test_a_key_that_is_none_is_told(people, key):
    async with people("alice") as client:
        answer = await client.post(EXPENSES, json=TAXI, headers=[(b"idempotency-key", key.encode())])
    assert problem(answer, 422)["problems"][0]["path"] == ["header", "Idempotency-Key"]


async def test_another_partition_is_another_request(people):
    path = "/api/flows/pair/start"
    await create(people, "k1", {}, path=path, partition_id="north")
    found = await create(people, "k1", {}, path=path, partition_id="south")
    assert problem(found, 422)["code"] == "IDEMPOTENCY_KEY_REUSED"


async def test_rolled_back_work_inside_a_command_leaves_the_rest(people, furnished):
    """A start that cannot begin leaves nothing behind, and its refusal is kept."""
    path = "/api/flows/survey/start"
    body = {"x": "a\u0000b"}
    first, again = [await create(people, "k1", body, path=path) for _ in range(2)]
    assert problem(first, 422)["code"] == "TEXT_NOT_KEPT"
    assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
    assert await rows(furnished, "workflow_instances") == []
