"""The application that chaos runs: orders that are approved, and errands that pass every kind of waiting."""

from collections.abc import Mapping
from typing import Any

import assent
from assent.app import App
from assent.store.connection import Connection
from assent.store.database import Database
from tests.world import FAILS_ON_DRIFT, ORDER, ORG, OTHER_ORG, grant, hire, insert_org, patch_of, publish

ORGS = (ORG, OTHER_ORG)
PEOPLE = {"ann": ["clerk"], "bea": ["approver"], "ops": ["operator"]}
CAPABILITIES = {"operator": ["workflows:*", "events:emit", "results:push"]}

STRICT_ORDER: dict[str, Any] = {**ORDER, **FAILS_ON_DRIFT}
PATCH = patch_of({"id": "ask", "type": "approval", "approvers": {"role": "approver"}}, entity_type="order")

ERRAND: dict[str, Any] = {
    "flow": "errand",
    "version": 1,
    "start": "begin",
    "steps": [
        {
            "id": "begin",
            "type": "system",
            "operation": {"sdk": "chaos.mark"},
            "input": {"what": "workflow.number"},
        },
        {"id": "rest", "type": "wait", "for": "1s"},
        {
            "id": "call",
            "type": "webhook_out",
            "url": "{org.receiver}/call",
            "body": {"number": "{workflow.number}"},
            "await": True,
        },
        {"id": "work", "type": "task", "task": "chaos.work", "input": {"what": "workflow.number"}},
        {
            "id": "ask",
            "type": "webhook_out",
            "url": "{org.receiver}/ask",
            "body": {"number": "{workflow.number}"},
            "await": "result",
        },
        {"id": "paid", "type": "wait_event", "key": "paid:{workflow.number}"},
        {
            "id": "tell",
            "type": "webhook_out",
            "url": "{org.receiver}/tell",
            "body": {"number": "{workflow.number}"},
        },
        {"id": "end", "type": "terminal"},
        {"id": "failed", "type": "terminal"},
    ],
    "transitions": [
        {"from": "begin", "event": "completed", "to": "rest"},
        {"from": "rest", "event": "completed", "to": "call"},
        {"from": "call", "event": "completed", "to": "work"},
        {"from": "call", "event": "error", "to": "failed"},
        {"from": "work", "event": "completed", "to": "ask"},
        {"from": "work", "event": "error", "to": "failed"},
        {"from": "ask", "event": "completed", "to": "paid"},
        {"from": "ask", "event": "error", "to": "failed"},
        {"from": "paid", "event": "completed", "to": "tell"},
        {"from": "tell", "event": "completed", "to": "end"},
    ],
}
NODES = ("begin", "rest", "call", "work", "ask", "paid", "tell", "end")

_MARKS = """
CREATE TABLE public.marks (what text NOT NULL, of text NOT NULL);
GRANT SELECT, INSERT ON public.marks TO assent_engine;
"""
_MARK = "INSERT INTO public.marks (what, of) VALUES ($1, $2)"

app = App([STRICT_ORDER])


@app.operation("chaos.mark")
async def mark(connection: Connection, arguments: Mapping[str, Any]) -> None:
    """Write a row that commits with its step, or not at all."""
    await connection.execute(_MARK, arguments["what"], "step")


@app.task("chaos.work", attempts_max=50)
async def work(task: assent.TaskContext, what: str) -> str:
    """Write a row that commits with the task's completion."""
    async with task.transaction() as connection:
        await connection.execute(_MARK, what, "task")
    return what


async def furnish(database: Database, receiver_url: str) -> None:
    """Insert both orgs with their people, and publish what runs."""
    async with database.transaction(None) as connection:
        await connection.execute(_MARKS)
        for org_id in ORGS:
            await insert_org(connection, org_id, {"receiver": receiver_url})
            await hire(connection, PEOPLE, org_id)
            await grant(connection, CAPABILITIES, org_id)
    for source in (STRICT_ORDER, ERRAND):
        await publish(database, source)
    for org_id in ORGS:
        await publish(database, PATCH, org_id)
