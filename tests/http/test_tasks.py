"""Tasks over HTTP: submitted, run by a worker, seen with what came of them, called off, tried again."""

from typing import Any
from uuid import UUID

import pytest

from assent.worker.duty import WorkerContext
from assent.worker.tasks import Tasks
from tests.http.application import app
from tests.http.callers import problem
from tests.workers import run_until_done
from tests.world import rows

MAY = {"type": "report.build", "input": {"month": "May"}}
NEVER = {"type": "report.build", "input": {"month": "never"}}


@pytest.fixture
async def adam(people):
    async with people("adam") as client:
        yield client


async def submit(client, body: dict[str, Any], **rest: Any) -> str:
    answer = await client.post("/api/tasks", json=body | rest)
    assert answer.status_code == 202, answer.text
    task_id: str = answer.json()["id"]
    return task_id


async def work(database) -> None:
    duty = Tasks(WorkerContext(database, runtime=app.runtime(database)))
    await run_until_done(duty)


async def test_a_task_is_submitted_run_and_seen(adam, furnished):
    task_id = await submit(adam, MAY, priority=200)
    found = (await adam.get(f"/api/tasks/{task_id}")).json()
    assert (found["status"], found["priority"], found["submitted_by"]) == ("queued", 200, "adam")
    assert (found["input"], found["output"], found["tried"]) == ({"month": "May"}, None, [])
    await work(furnished)
    found = (await adam.get(f"/api/tasks/{task_id}")).json()
    assert (found["status"], found["output"]) == ("done", {"title": "Report of May"})
    assert [(one["attempt"], one["outcome"]) for one in found["tried"]] == [(1, "done")]


async def test_one_key_is_one_task_and_another_input_is_refused(adam):
    first = await submit(adam, MAY, key="may")
    assert await submit(adam, MAY, key="may") == first
    refused = await adam.post("/api/tasks", json=NEVER | {"key": "may"})
    assert problem(refused, 422)["code"] == "IDEMPOTENCY_KEY_REUSED"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"type": "report.burn"}, "UNKNOWN_TASK"),
        ({"type": "report.build", "input": {}}, "MISSING_KEY"),
        ({"type": "report.build", "input": {"month": 5}}, "WRONG_TYPE"),
        ({**MAY, "priority": 256}, "INVALID_REQUEST"),
        ({**MAY, "run_at": "2026-01-01T00:00:00"}, "INVALID_REQUEST"),
    ],
)
async def test_what_will_not_do_is_refused(adam, furnished, body, code):
    assert problem(await adam.post("/api/tasks", json=body), 422)["code"] == code
    assert await rows(furnished, "jobs") == []


async def test_pages_are_the_newest_first_and_filtered(adam, furnished):
    ids = [await submit(adam, MAY) for _ in range(3)]
    dead = await submit(adam, NEVER)
    page = (await adam.get("/api/tasks?limit=3")).json()
    assert [task["id"] for task in page["items"]] == [dead, *reversed(ids[1:])]
    rest = (await adam.get(f"/api/tasks?limit=3&cursor={page['next']}")).json()
    assert ([task["id"] for task in rest["items"]], rest["next"]) == ([ids[0]], None)
    await work(furnished)
    for query, expected in (
        ("status=dead", [dead]),
        ("type=report.burn", []),
        (f"instance_id={UUID(int=1)}", []),
    ):
        assert [task["id"] for task in (await adam.get(f"/api/tasks?{query}")).json()["items"]] == expected


async def test_a_dead_task_is_a_dead_letter_and_is_tried_again(adam, furnished):
    task_id = await submit(adam, NEVER)
    await work(furnished)
    (letter,) = (await adam.get("/api/operations/dead-letters")).json()["items"]
    assert (letter["id"], letter["kind"], letter["what"]) == (task_id, "task", "report.build")
    assert letter["error"] == "RuntimeError: there is no such month"
    health = (await adam.get("/api/operations/health")).json()
    assert [queue["dead"] for queue in health["queues"] if queue["name"] == "tasks"] == [1]
    assert [(one["queue"], one["kind"]) for one in health["dead_letters"]] == [("tasks", "report.build")]
    answer = await adam.post(f"/api/operations/dead-letters/{task_id}/retry")
    assert answer.json() == {"id": task_id, "kind": "task"}
    await work(furnished)
    again = await adam.post(f"/api/tasks/{task_id}/retry")
    assert (again.json()["status"], again.json()["attempts"], again.json()["attempts_max"]) == (
        "queued",
        2,
        3,
    )


async def test_a_task_is_called_off_once(adam):
    task_id = await submit(adam, MAY)
    assert (await adam.post(f"/api/tasks/{task_id}/cancel")).json()["status"] == "cancelled"
    assert problem(await adam.post(f"/api/tasks/{task_id}/cancel"), 409)["code"] == "TASK_HAS_ENDED"
    assert problem(await adam.post(f"/api/tasks/{task_id}/retry"), 409)["code"] == "TASK_NOT_DEAD"


async def test_each_takes_a_capability(people, adam):
    task_id = await submit(adam, MAY)
    async with people("alice") as client:
        for method, path, body in (
            ("POST", "/api/tasks", MAY),
            ("GET", "/api/tasks", None),
            ("GET", f"/api/tasks/{task_id}", None),
            ("POST", f"/api/tasks/{task_id}/cancel", None),
            ("POST", f"/api/tasks/{task_id}/retry", None),
        ):
            assert problem(await client.request(method, path, json=body), 403)["code"] == "POLICY_DENIED"


async def test_commands_are_in_the_audit_log(adam, furnished):
    task_id = await submit(adam, MAY)
    await adam.post(f"/api/tasks/{task_id}/cancel")
    noted = [row for row in await rows(furnished, "audit_log") if row["subject_kind"] == "task"]
    found = sorted((row["action"], row["actor_id"], row["channel"], row["subject_id"]) for row in noted)
    assert found == [("task.cancel", "adam", "http", task_id), ("task.submit", "adam", "http", task_id)]
