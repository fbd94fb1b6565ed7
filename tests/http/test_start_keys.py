"""A key under which a flow is started stands for that start for good: one instance by whichever door, or a refusal."""

import asyncio
import json
from uuid import UUID

import pytest

from assent.definitions import publish_flow
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Refused
from tests.cli.desk import Desk
from tests.http.application import app
from tests.http.callers import problem
from tests.processes.spawn import wait_until_blocked
from tests.world import ORG, hire_with, rows

ALICE = Actor("alice", roles=frozenset({"clerk"}))
STEPS = [{"id": "ask", "type": "action"}, {"id": "end", "type": "terminal"}]
FLOWS = ("one.flow", "other.flow")


@pytest.fixture
async def flows(furnished):
    """Two flows that anybody may start; who reads instances is asked of each."""
    async with furnished.transaction(None) as connection:
        for key in FLOWS:
            flow = {"flow": key, "version": 1, "start": "ask", "steps": STEPS}
            ways = [{"from": "ask", "event": "completed", "to": "end"}]
            await publish_flow(connection, ORG, {**flow, "transitions": ways}, SYSTEM, furnished.clock.now())
    return furnished


async def by_python(people, database, flow, n, key):
    try:
        view = (
            await app.runtime(database).org(ORG, ALICE).instances.start(flow, {"n": n}, idempotency_key=key)
        )
    except Refused as refused:
        return refused.code
    return view.id


async def by_cli(people, database, flow, n, key):
    words = ("instances", "start", flow, "--data", f"n={n}", "--key", key, "--json")
    result = await Desk(database.url).run(*words, user="alice", code=None)
    if result.exit_code:
        return json.loads(result.stderr)["code"]
    return UUID(json.loads(result.stdout)["id"])


async def by_http(people, database, flow, n, key):
    async with people("alice") as client:
        answer = await client.post(
            f"/api/flows/{flow}/start", json={"n": n}, headers={"Idempotency-Key": key}
        )
    return UUID(answer.json()["id"]) if answer.status_code == 201 else problem(answer, 422)["code"]


DOORS = [by_python, by_cli, by_http]
OTHERS = {"another input": ("one.flow", 2), "another flow": ("other.flow", 1)}


@pytest.mark.parametrize("second", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("first", DOORS, ids=lambda door: door.__name__)
async def test_key_stands_for_one_start_by_any_two_doors(people, flows, first, second):
    started = await first(people, flows, "one.flow", 1, "k1")
    assert isinstance(started, UUID)
    assert await second(people, flows, "one.flow", 1, "k1") == started
    for flow, n in OTHERS.values():
        assert await second(people, flows, flow, n, "k1") == "IDEMPOTENCY_KEY_REUSED"
    assert await second(people, flows, "one.flow", 1, "k2") != started
    assert len(await rows(flows, "workflow_instances")) == 2


@pytest.mark.parametrize("by", DOORS, ids=lambda door: door.__name__)
async def test_key_holds_after_its_instance_was_deleted(people, flows, clock, by):
    """The instance ends and retention deletes it: the key starts no other one, of the same kind or of another."""
    started = await by_python(people, flows, "one.flow", 1, "k1")
    runtime = app.runtime(flows)
    await runtime.org(ORG, ALICE).instances.advance(started, "completed")
    clock.advance("40d")
    async with flows.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.orgs (org_id, name, settings) VALUES ('acme', 'Acme', $1)"
            " ON CONFLICT (org_id) DO UPDATE SET settings = excluded.settings",
            {"retention_days": 30},
        )
        await connection.fetch("SELECT * FROM assent.delete_ended_instances(100)")
    assert await rows(flows, "workflow_instances") == []
    if by is by_http:
        later = {"exp": clock.now().timestamp() + 3600}
        async with people("alice", **later) as client:
            answers = [
                await client.post(f"/api/flows/{flow}/start", json={"n": n}, headers={"Idempotency-Key": key})
                for flow, n, key in (("one.flow", 1, "k1"), ("one.flow", 2, "k1"))
            ]
        assert problem(answers[0], 410)["code"] == "INSTANCE_DELETED"
        assert problem(answers[1], 422)["code"] == "IDEMPOTENCY_KEY_REUSED"
    else:
        assert await by(people, flows, "one.flow", 1, "k1") == "INSTANCE_DELETED"
        assert await by(people, flows, "one.flow", 2, "k1") == "IDEMPOTENCY_KEY_REUSED"
    assert await rows(flows, "workflow_instances") == []


async def test_http_key_answers_with_the_instance_after_its_reply_was_forgotten(people, flows, clock):
    started = await by_http(people, flows, "one.flow", 1, "k1")
    await app.runtime(flows).org(ORG, ALICE).instances.advance(started, "completed")
    clock.advance("30d")
    async with people("alice", exp=clock.now().timestamp() + 3600) as client:
        again = await client.post(
            "/api/flows/one.flow/start", json={"n": 1}, headers={"Idempotency-Key": "k1"}
        )
    assert "idempotent-replayed" not in again.headers
    assert (again.status_code, again.json()["id"], again.json()["status"]) == (201, str(started), "completed")


async def test_key_of_another_shows_an_instance_only_to_readers(people, flows):
    """A caller who may not read the instance is refused, and is not told which one it is."""
    await hire_with(flows, "nia")
    await hire_with(flows, "rea", "workflows:read")
    started = await by_http(people, flows, "one.flow", 1, "k1")
    headers = {"Idempotency-Key": "k1"}
    async with people("rea") as client:
        seen = await client.post("/api/flows/one.flow/start", json={"n": 1}, headers=headers)
    assert (seen.status_code, seen.json()["id"]) == (201, str(started))
    async with people("nia") as client:
        unseen = await client.post("/api/flows/one.flow/start", json={"n": 1}, headers=headers)
    assert problem(unseen, 422)["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert str(started) not in unseen.text
    with pytest.raises(Refused, match="IDEMPOTENCY_KEY_REUSED") as caught:
        await (
            app.runtime(flows)
            .org(ORG, Actor("nia"))
            .instances.start("one.flow", {"n": 1}, idempotency_key="k1")
        )
    assert str(started) not in str(caught.value)
    assert len(await rows(flows, "workflow_instances")) == 1


async def test_start_that_is_refused_leaves_its_key_free(people, flows):
    runtime = app.runtime(flows)
    with pytest.raises(Refused):
        await runtime.org(ORG, ALICE).instances.start("no.such.flow", {"n": 1}, idempotency_key="k1")
    assert await rows(flows, "workflow_start_keys") == []
    assert isinstance(await by_python(people, flows, "one.flow", 1, "k1"), UUID)


async def test_keys_of_partitions_and_of_the_org_do_not_meet(flows):
    runtime = app.runtime(flows)
    views = [
        await runtime.org(ORG, ALICE, partition_id=partition).instances.start(
            "one.flow", {"n": n}, idempotency_key="k1"
        )
        for n, partition in enumerate((None, "north", "south"))
    ]
    assert len({view.id for view in views}) == 3


@pytest.mark.parametrize("same", [True, False], ids=["same input", "other input"])
async def test_two_starts_at_once_from_two_connections_are_one_instance(flows, same):
    """The second waits for the first, which has started and not committed; then it finds what was started."""
    runtime = app.runtime(flows)
    async with flows.transaction(ORG) as connection:
        async with runtime.within(connection, ORG, ALICE) as here:
            first = await here.instances.start("one.flow", {"n": 1}, idempotency_key="k1")
        second = asyncio.create_task(
            app.runtime(flows)
            .org(ORG, ALICE)
            .instances.start("one.flow", {"n": 1 if same else 2}, idempotency_key="k1")
        )
        async with flows.transaction(None) as observer:
            await wait_until_blocked(observer, 1)
        assert not second.done()
    if same:
        assert (await second).id == first.id
    else:
        with pytest.raises(Refused, match="IDEMPOTENCY_KEY_REUSED"):
            await second
    assert len(await rows(flows, "workflow_instances")) == 1


async def test_starts_that_come_together_under_one_key_are_one_instance(flows):
    """In one process and its group commit: some with the same input, some with another."""
    runtime = app.runtime(flows)
    found = await asyncio.gather(
        *(
            runtime.org(ORG, ALICE).instances.start("one.flow", {"n": n % 2}, idempotency_key="k1")
            for n in range(12)
        ),
        return_exceptions=True,
    )
    views = [one for one in found if not isinstance(one, BaseException)]
    refusals = [one for one in found if isinstance(one, Refused)]
    assert len({view.id for view in views}) == 1
    assert {refusal.code for refusal in refusals} == {"IDEMPOTENCY_KEY_REUSED"}
    assert (len(views), len(refusals)) == (6, 6)
    assert len(await rows(flows, "workflow_instances")) == 1
