"""An application for planted secrets: memos that only managers read, and flows that those who take part read."""

from typing import Any

from assent.app import App
from assent.store.database import Database
from tests.world import APPROVED_LIFECYCLE, ORG, grant, hire, publish

MARK = "planted-secret-8888888"
"""It stands in the content of every object; whoever may not read an object never sees it."""

PEOPLE = {"nobody": [], "agent": ["agent"], "mia": ["manager"], "ned": ["auditor"]}
CAPABILITIES = {
    "agent": [
        "approvals:reassign",
        "approvals:delegate",
        "documents:erase",
        "documents:review",
        "documents:write",
        "events:emit",
        "forms:reassign",
        "operations:read",
        "requirements:manage",
        "requirements:waive",
        "results:push",
        "tasks:cancel",
        "tasks:complete",
        "tasks:retry",
        "tasks:submit",
        "workflows:cancel",
        "workflows:pause",
        "workflows:repair",
        "workflows:resume",
        "workflows:retry",
    ],
    "auditor": ["tasks:read", "documents:read"],
}
"""`agent` may do everything that takes a capability, and read nothing."""

MEMO: dict[str, Any] = {
    "contract": "memo",
    "version": 1,
    "fields": {"title": {"type": "text", "required": True}, "pages": {"type": "integer"}},
    "lifecycle": APPROVED_LIFECYCLE,
    "permissions": {
        "create": ["manager", "agent"],
        "update": ["manager", "agent"],
        "submit": ["manager", "agent"],
        "read": ["manager"],
    },
}


def steps(secret: str, form: str) -> list[dict[str, Any]]:
    """One step of every kind that shows content to somebody, all at the same time."""
    note = {"note": {"type": "text"}}
    return [
        {"id": "copy", "type": "script", "set": {"copied": secret}},
        {"id": "fork", "type": "parallel_split"},
        {"id": "sign", "type": "approval", "approvers": {"user": "fin"}},
        {"id": "fill", "type": form, "assignee": {"user": "max"}, "form": note},
        {"id": "work", "type": "task", "task": "report.build", "input": {"month": secret}},
        {
            "id": "vendor",
            "type": "webhook_out",
            "url": "https://vendor.example/checks",
            "headers": {"X-Note": MARK},
            "body": {"what": "{" + secret + "}"},
            "await": "result",
        },
        {"id": "both", "type": "parallel_join", "mode": "all"},
    ]


PATCH: dict[str, Any] = {
    "patch": "memo",
    "base": {"entity_type": "memo", "envelope_version": 1},
    "slots": {
        "slot:submitted_to_approved": {
            "nodes": steps("entity.title", "form"),
            "edges": [
                {"from": "in", "to": "copy"},
                {"from": "copy", "to": "fork"},
                *({"from": "fork", "to": one} for one in ("sign", "fill", "work", "vendor")),
                {"from": "sign", "to": "both", "on": "approved"},
                *({"from": one, "to": "both"} for one in ("fill", "work", "vendor")),
                {"from": "both", "to": "out"},
            ],
        }
    },
}

DIARY: dict[str, Any] = {
    "flow": "diary",
    "version": 1,
    "start": "copy",
    "steps": [*steps("workflow.secret", "action"), {"id": "done", "type": "terminal"}],
    "transitions": [
        {"from": "copy", "to": "fork"},
        *({"from": "fork", "to": one} for one in ("sign", "fill", "work", "vendor")),
        {"from": "sign", "event": "approved", "to": "both"},
        {"from": "sign", "event": "rejected", "to": "both"},
        *({"from": one, "to": "both"} for one in ("fill", "work", "vendor")),
        {"from": "both", "to": "done"},
    ],
}
LEDGER = DIARY | {"flow": "ledger", "permissions": {"read": ["auditor"]}}

app = App([MEMO])


@app.task("report.build", attempts_max=1)
async def build_report(month: str) -> dict[str, Any]:
    return {"title": month}


async def furnish_hidden(database: Database, *flows: dict[str, Any]) -> None:
    """Publish the memo and these flows, and add the people to acme."""
    for source in (MEMO, PATCH, *flows):
        await publish(database, source, ORG)
    async with database.transaction(None) as connection:
        await hire(connection, PEOPLE)
        await grant(connection, CAPABILITIES)
