"""Events through HTTP: told to whoever waits, or will; one cause once."""

import pytest

from tests.http.application import app
from tests.http.callers import problem
from tests.world import drain, rows


async def emit(people, user="olga", key="payment:7", body=None):
    async with people(user) as client:
        return await client.post(f"/api/events/{key}", json=body)


async def waiting(people) -> str:
    async with people("alice") as client:
        found = (await client.post("/api/flows/survey/start", json={"order": 7})).json()
        await client.post(
            f"/api/instances/{found['id']}/advance", json={"event": "completed", "input": {"rating": 5}}
        )
    return found["id"]


async def status(people, instance_id) -> str:
    async with people("alice") as client:
        return (await client.get(f"/api/instances/{instance_id}")).json()["status"]


async def test_whoever_waits_goes_on(people, furnished):
    instance_id = await waiting(people)
    answer = await emit(people, body={"data": {"paid": 100}})
    assert (answer.status_code, answer.json()) == (202, {"key": "payment:7", "new": True})
    await drain(app.runtime(furnished))
    assert await status(people, instance_id) == "completed"


async def test_an_event_that_comes_first_is_kept(people, furnished):
    assert (await emit(people)).status_code == 202
    await drain(app.runtime(furnished))
    assert await status(people, await waiting(people)) == "completed"


async def test_one_cause_is_told_once(people, furnished):
    for new in (True, False):
        assert (await emit(people, body={"cause": "evt_17"})).json()["new"] is new
    assert len(await rows(furnished, "workflow_events_outbox")) == 1


async def test_events_are_for_holders_of_the_capability(people, furnished):
    assert problem(await emit(people, "alice"), 403)["code"] == "POLICY_DENIED"
    assert await rows(furnished, "workflow_events_outbox") == []


@pytest.mark.parametrize("key", ["a%00b", "x" * 201])
async def test_a_key_that_cannot_be_kept_is_told(people, key):
    assert problem(await emit(people, key=key), 422)["problems"][0]["path"] == ["path", "key"]


async def test_data_that_cannot_be_kept_is_told(people):
    async with people("olga") as client:
        content = b'{"data": {"x": "a\\u0000b"}}'
        answer = await client.post(
            "/api/events/k", content=content, headers={"content-type": "application/json"}
        )
    assert problem(answer, 422)
