"""Workflows are always resumable: the scenarios of seed 003, on a real server that is killed and started again."""

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.http.application import CONFIRMING
from tests.http.process import server
from tests.plain_sql import wait_until_a_connection_is_blocked

ORDER = {"order_id": "ord-123", "customer_email": "bob@example.com"}


async def start(client, **more: Any) -> str:
    started = await client.post("/api/flows/orders.approval/start", json={**ORDER, **more})
    assert started.status_code == 201, started.text
    return started.json()["id"]


async def active(client) -> list[dict[str, Any]]:
    return (await client.get("/api/instances?status=active")).json()["items"]


async def test_somebody_leaves_in_the_middle_and_comes_back_later(database_url):
    async with server(database_url) as first, first.client("alice") as alice:
        instance_id = await start(alice)
        await first.kill()
    async with server(database_url) as second, second.client("bob") as bob:
        (found,) = await active(bob)
        assert (found["id"], found["current_nodes"]) == (instance_id, ["review"])
        seen = (await bob.get(f"/api/instances/{instance_id}")).json()
        assert seen["steps"][0]["events"] == ["abstained", "approved", "rejected"]
        done = await bob.post(f"/api/instances/{instance_id}/advance", json={"event": "approved"})
        assert done.json()["status"] == "completed"
        assert await active(bob) == []


@pytest.fixture
async def gate(database_url):
    """Holds the lock that the `process` step waits for, until it is told to let go."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("SELECT pg_advisory_lock($1)", CONFIRMING)
    yield connection
    await connection.close()


async def test_the_server_dies_in_a_system_step_and_somebody_tries_again(database_url, gate):
    """Nothing of the attempt is left: the approval was not given, the operation has not run; then both happen once."""
    async with server(database_url) as first, first.client("alice") as alice, first.client("bob") as bob:
        instance_id = await start(alice, order_id="ord-slow")
        path = f"/api/instances/{instance_id}/advance"
        answer = asyncio.create_task(
            bob.post(path, json={"event": "approved"}, headers={"Idempotency-Key": "k1"})
        )
        await wait_until_a_connection_is_blocked(gate)
        await first.kill()
        with pytest.raises(Exception, match=r"disconnected|closed|reset"):
            await answer
    await gate.execute("SELECT pg_advisory_unlock_all()")
    async with server(database_url) as second, second.client("bob") as bob:
        seen = (await bob.get(f"/api/instances/{instance_id}")).json()
        assert (seen["status"], seen["current_nodes"]) == ("running", ["review"])
        assert [step["step"] for step in seen["timeline"] if step["status"] == "completed"] == [
            "ctl:start",
            "start",
        ]
        done = await bob.post(path, json={"event": "approved"}, headers={"Idempotency-Key": "k1"})
        assert (done.status_code, done.json()["status"]) == (200, "completed")
        again = await bob.post(path, json={"event": "approved"}, headers={"Idempotency-Key": "k1"})
        assert (again.status_code, again.content) == (200, done.content)
    assert await gate.fetchval("SELECT count(*) FROM assent.approval_decisions WHERE org_id = 'acme'") == 1
    assert await gate.fetchval("SELECT count(*) FROM assent.effects WHERE org_id = 'acme'") == 1


async def test_different_people_advance_different_steps(database_url):
    async with server(database_url) as first, first.client("alice") as alice:
        instance_id = await start(alice)
        await first.kill()
    async with (
        server(database_url) as second,
        second.client("bob") as bob,
        second.client("alice") as alice,
        second.client("carol", "globex") as stranger,
    ):
        assert [item["id"] for item in await active(bob)] == [instance_id]
        assert await active(stranger) == []
        refused = await alice.post(f"/api/instances/{instance_id}/advance", json={"event": "approved"})
        assert refused.json()["code"] == "SEPARATION_OF_DUTIES"
        await bob.post(f"/api/instances/{instance_id}/advance", json={"event": "approved"})
        seen = (await alice.get(f"/api/instances/{instance_id}")).json()
        review = next(step for step in seen["timeline"] if step["step"] == "review")
        assert (seen["status"], seen["subject_id"]) == ("completed", "alice")
        assert (review["actor"], review["finished_by"], review["outcome"]) == ("alice", "bob", "approved")
