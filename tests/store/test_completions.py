"""Completed tasks and versions of documents emit events, in their own transaction, where something waits for them."""

from typing import Any

from assent.store.connection import Connection
from tests.postgres import START
from tests.rows import insert, insert_document_version

WATCHED = "INSERT INTO assent.declared_names VALUES ('watch:task.completed:tests.read', $1)"
EVENTS = """
SELECT payload_json, instance_id FROM assent.workflow_events_outbox WHERE org_id = 'acme' ORDER BY created_at, id
"""


async def end_task(connection: Connection, type: str = "tests.read", **attempt: Any) -> Any:
    job = await insert(connection, "jobs", lane=type, status="done", ended_at=START, attempts=1)
    submitted = {"id": job["id"], "type": type, "input": {"hash": "a"}, "partition_id": "south"}
    await insert(connection, "task_submissions", **submitted)
    given = {"outcome": "done", "output": 7, **attempt}
    await insert(connection, "job_attempts", job_id=job["id"], kind="task", **given)
    return job["id"]


async def test_task_that_is_watched_emits_one_event_when_it_has_completed(owner: Connection) -> None:
    """Also long after the last worker that watches has stopped; of what is not watched, or failed, there is none."""
    await end_task(owner)
    assert await owner.fetch(EVENTS) == []
    await owner.execute(WATCHED, START)
    await end_task(owner, "tests.other")
    await end_task(owner, outcome="failed", output=None, code="TASK_FAILED", error="it broke")
    assert await owner.fetch(EVENTS) == []
    task_id = str(await end_task(owner))
    (event,) = await owner.fetch(EVENTS)
    assert event["instance_id"] is None
    assert event["payload_json"] == {
        "key": "task.completed:tests.read",
        "cause": task_id,
        "partition": "south",
        "data": {"id": task_id, "type": "tests.read", "input": {"hash": "a"}, "output": 7},
    }


async def test_version_of_a_document_emits_one_event_where_it_is_watched(owner: Connection) -> None:
    await insert_document_version(owner)
    assert await owner.fetch(EVENTS) == []
    await owner.execute("INSERT INTO assent.declared_names VALUES ('watch:document.version', $1)", START)
    version = await insert_document_version(owner)
    (event,) = await owner.fetch(EVENTS)
    assert event["payload_json"]["key"] == "document.version"
    data = event["payload_json"]["data"]
    assert (data["id"], data["document_id"]) == (str(version["id"]), str(version["document_id"]))
    assert data["mime_type"] == version["content_type"]
