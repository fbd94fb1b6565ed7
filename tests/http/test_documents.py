"""Tasks that outside parties report over HTTP: held to their org, their signature and versions that exist."""

from uuid import uuid4

from tests.http.callers import problem


async def asked(people):
    async with people("alice") as client:
        await client.post("/api/flows/screening/start", json={"client": "c-1"})
        (request,) = (await client.get("/api/outside-requests")).json()["items"]
    return request


def reported(request, **changes):
    return {
        "task_id": request["id"],
        "idempotency_key": "k",
        "status": "failed",
        "error": "no such client",
        **changes,
    }


async def test_a_task_of_another_org_is_not_there(people):
    request = await asked(people)
    async with people("olga", "globex") as client:
        answer = await client.post("/api/workflow/task-complete", json=reported(request))
    assert problem(answer, 404)["code"] == "NOT_FOUND"
    async with people("alice", "globex") as client:
        answer = await client.get(f"/api/workflow/{request['instance_id']}/pending-tasks")
    assert problem(answer, 404)["code"] == "NOT_FOUND"


async def test_a_task_is_reported_by_those_who_may_push_results(people):
    request = await asked(people)
    async with people("alice") as client:
        answer = await client.post("/api/workflow/task-complete", json=reported(request))
        assert problem(answer, 403)["code"] == "POLICY_DENIED"
        pending = f"/api/workflow/{request['instance_id']}/pending-tasks"
        assert [one["id"] for one in (await client.get(pending)).json()["items"]] == [request["id"]]
    async with people("olga") as client:
        answers = [await client.post("/api/workflow/task-complete", json=reported(request)) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 200]


async def test_a_task_whose_source_signs_is_not_reported_without_its_signature(people):
    request = await asked(people)
    async with people("adam") as client:
        made = await client.post("/api/event-sources", json={"name": "vendor", "key_prefix": "result:"})
        assert made.status_code == 201, made.text
    async with people("olga") as client:
        answer = await client.post("/api/workflow/task-complete", json=reported(request))
    assert problem(answer, 403)["code"] == "SIGNATURE_MISSING"


async def test_items_of_a_task_are_versions_that_exist(people):
    request = await asked(people)
    async with people("olga") as client:
        for cargo in ("external://vault/7", f"version://assent/{uuid4()}"):
            body = reported(request, status="completed", items=[{"cargo_ref": cargo}], error=None)
            answer = await client.post("/api/workflow/task-complete", json=body)
            found = problem(answer, 400)
            assert (found["code"], "POST /api/documents" in answer.text) == ("UNKNOWN_VERSION", True)
