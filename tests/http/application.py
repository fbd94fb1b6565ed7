"""The application that the HTTP tests talk to: invoices with approval, expenses without a workflow, orders as a flow.

`app` is for `assent serve --app tests.http.application:app`.
"""

from typing import Any

import assent
from assent.app import App
from assent.store.database import Database
from tests.authored import arrows, flow_of, form, invoice_contract, invoice_patch, orders_flow
from tests.world import EXPENSE, ORG, OTHER_ORG, WorldMember, grant, hire, insert_org, publish, vendor

PEOPLE: dict[str, WorldMember] = {
    "alice": WorldMember(["clerk"]),
    "bob": WorldMember(["approver"]),
    "carol": WorldMember(["approver"]),
    "fin": WorldMember(["finance_manager"]),
    "max": WorldMember(["manager"]),
    "olga": WorldMember(["operator"]),
    "robot": WorldMember(["clerk", "operator"], kind="service_account"),
    "adam": WorldMember(["admin"]),
}
CAPABILITIES = {
    "clerk": ["orders:approve:execute"],
    "operator": ["workflows:*", "events:emit", "approvals:reassign", "results:push"],
    "manager": ["orders:approve:escalated"],
    "admin": [
        "approvals:*",
        "audit:read",
        "definitions:*",
        "documents:*",
        "events:sources",
        "keys:manage",
        "members:manage",
        "operations:*",
        "org:manage",
        "requirements:*",
        "roles:manage",
        "rules:manage",
        "schedules:*",
        "filters:share",
        "secrets:manage",
        "tasks:*",
        "workflow:publish:waive_approval",
        "workflows:*",
    ],
}

SECRETS: dict[str, Any] = {
    "contract": "dossier",
    "version": 1,
    "workflow": "none",
    "fields": {"title": {"type": "text", "required": True}},
    "lifecycle": {"initial": "open", "states": {"open": {"edit": "editable"}}, "transitions": {}},
    "permissions": {"create": ["manager"], "read": ["manager"]},
}

DONE = {"id": "done", "type": "terminal"}

SURVEY = flow_of(
    "survey",
    [
        form(
            "ask",
            assignee={"role": "clerk"},
            form={
                "rating": {"type": "integer", "required": True, "min": 1, "max": 5},
                "note": {"type": "text"},
            },
        ),
        {"id": "paid", "type": "wait_event", "key": "payment:{workflow.order}"},
        DONE,
    ],
    arrows("ask", "paid", "done"),
)

PAIR = flow_of(
    "pair",
    [
        {"id": "fork", "type": "parallel_split"},
        form("left"),
        form("right"),
        {"id": "both", "type": "parallel_join", "mode": "all"},
        DONE,
    ],
    [
        {"from": "fork", "to": "left"},
        {"from": "fork", "to": "right"},
        {"from": "left", "to": "both"},
        {"from": "right", "to": "both"},
        {"from": "both", "to": "done"},
    ],
)

SCREENING = flow_of(
    "screening",
    [vendor(expects=2), DONE, {"id": "refused", "type": "terminal"}],
    arrows("vendor", "done") + arrows("vendor", "refused", event="error"),
)

LEAVE = flow_of(
    "leave.request",
    [{"id": "ask", "type": "approval", "assignee": {"role": "manager"}}, DONE],
    arrows("ask", "done", event="approved") + arrows("ask", "done", event="rejected"),
)
"""A flow that a test publishes."""

CHAIN: dict[str, Any] = {
    "entity_type": "invoice",
    "steps": [
        {"name": "finance", "approvers": {"role": "finance_manager"}, "mode": "quorum", "quorum": 2},
        {"name": "head", "approvers": {"manager": True, "levels": 2}, "due": "24h"},
    ],
}

RULE: dict[str, Any] = {
    "action": "cancel",
    "timing": "before",
    "condition": "entity.grand_total > 900000000",
    "outcome": "deny",
    "then": {"message": "too much to cancel"},
}

SCHEDULE: dict[str, Any] = {
    "task": "report.build",
    "cron": "0 9 * * MON-FRI",
    "zone": "Europe/Berlin",
    "missed": "all",
    "input": {"month": "May"},
}

INVOICE_DATA = {"number": "2026-17", "vendor_id": "v-9", "grand_total": 120000, "currency": "EUR"}

app = App([invoice_contract(), EXPENSE, SECRETS])
CHECKING: dict[str, Any] = {"paths": {"/names/{name}": {"get": {"operationId": "check"}}}}
for service in ("register", "sanctions"):
    app.openapi(
        service,
        CHECKING,
        base_url=f"https://{service}.example/v1",
        headers={"Authorization": f"Bearer token-of-{service}"},
    )


@app.action("expense.round", payload={"to": {"type": "integer", "required": True, "min": 1}})
def round_total(entity: Any, payload: Any) -> dict[str, Any]:
    return {"total": entity.data["total"] // payload["to"] * payload["to"]}


CONFIRMING = 4_711
"""The advisory lock that slow orders pass while they are confirmed; a test may hold it."""


@app.operation("orders.confirm")
async def confirm(connection: Any, arguments: Any) -> dict[str, Any]:
    if arguments["order_id"] == "ord-broken":
        raise RuntimeError("the warehouse is closed")
    if arguments["order_id"] == "ord-slow":
        await connection.execute("SELECT pg_advisory_xact_lock($1)", CONFIRMING)
    return {"confirmed_at": "2026-03-02T10:45:00Z"}


app.resource("printer", max_concurrency=1)


@app.task("report.build", attempts_max=1)
async def build_report(task: assent.TaskContext, month: str) -> dict[str, Any] | assent.Background:
    if month == "logged":
        task.log("bound it")
    if month == "printed":
        return assent.Background("it is being printed", "1h")
    if month == "never":
        raise RuntimeError("there is no such month")
    return {"title": f"Report of {month}"}


async def furnish(database: Database) -> None:
    """Publish the definitions for all orgs, and insert two orgs with the same people."""
    for source in (invoice_contract(), orders_flow(), SURVEY, PAIR, SCREENING):
        await publish(database, source)
    for org_id in (ORG, OTHER_ORG):
        await publish(database, invoice_patch(), org_id)
        async with database.transaction(None) as connection:
            await insert_org(connection, org_id, {"trusted_vendors": ["v-1"], "budget_owners": {}})
            await hire(connection, PEOPLE, org_id)
            await grant(connection, CAPABILITIES, org_id)
