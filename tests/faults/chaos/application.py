"""The application that chaos runs: expenses that are approved, and errands that pass every kind of waiting."""

from collections.abc import Mapping
from typing import Any

import assent
from assent.app import App
from assent.definitions import publish_contract, publish_flow, publish_patch
from assent.model.actor import SYSTEM
from assent.model.contract import contract_from
from assent.store.connection import Connection
from assent.store.database import Database

ORGS = ("acme", "globex")
PEOPLE = {"ann": ["clerk"], "bea": ["approver"], "ops": ["operator"]}
CAPABILITIES = {"operator": ["workflows:*", "events:emit", "results:push"]}

EXPENSE: dict[str, Any] = {
    "contract": "expense",
    "version": 1,
    "fields": {"number": {"type": "text", "required": True}, "total": {"type": "money"}},
    "lifecycle": {
        "initial": "draft",
        "states": {
            "draft": {"edit": "editable"},
            "submitted": {"edit": "amend_only"},
            "active": {"edit": "locked"},
        },
        "transitions": {
            "submit": {"from": "draft", "to": "submitted"},
            "approve": {"from": "submitted", "to": "active", "approval": "required", "on_reject": "draft"},
        },
    },
    "on_drift": "fail",
    "permissions": {"create": ["clerk"], "update": ["clerk"], "submit": ["clerk"]},
}

PATCH: dict[str, Any] = {
    "patch": "expense",
    "base": {"entity_type": "expense", "envelope_version": 1},
    "slots": {
        "slot:submitted_to_approved": {
            "nodes": [{"id": "ask", "type": "approval", "approvers": {"role": "approver"}}],
            "edges": [{"from": "in", "to": "ask"}, {"from": "ask", "to": "out", "on": "approved"}],
        }
    },
}

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

app = App([EXPENSE])


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
    """Publish what runs, and let the people of both orgs move in."""
    now = database.clock.now()
    async with database.transaction(None) as connection:
        await connection.execute(_MARKS)
        await publish_contract(connection, contract_from(EXPENSE), SYSTEM, now)
        await publish_flow(connection, "*", ERRAND, SYSTEM, now)
        for org_id in ORGS:
            await publish_patch(connection, org_id, PATCH, SYSTEM, now)
            await connection.execute(
                "INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $1, $2)",
                org_id,
                {"receiver": receiver_url},
            )
            await connection.executemany(
                "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ($1, $2, $2, $3)",
                [(org_id, user, roles) for user, roles in PEOPLE.items()],
            )
            await connection.executemany(
                "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ($1, $2, $3)",
                [
                    (org_id, role, held)
                    for role, capabilities in CAPABILITIES.items()
                    for held in capabilities
                ],
            )
