"""A whole application: expenses are written by clerks, approved by a manager, and locked from then on.

python examples/expenses.py
"""

from typing import Any

import assent

EXPENSE = {
    "contract": "expense",
    "version": 1,
    "fields": {
        "title": {"type": "text", "required": True},
        "total": {"type": "money", "required": True, "min": 1, "currency": "EUR"},
        "cost_center": {"type": "text"},
    },
    "lifecycle": {
        "initial": "draft",
        "states": {
            "draft": {"edit": "editable"},
            "submitted": {"edit": "amend_only"},
            "paid": {"edit": "locked"},
        },
        "transitions": {
            "submit": {"from": "draft", "to": "submitted"},
            "approve": {"from": "submitted", "to": "paid", "approval": "required", "on_reject": "draft"},
        },
    },
    "on_drift": "fail",
    "permissions": {
        "create": ["clerk"],
        "update": ["clerk"],
        "assign": ["clerk"],
        "round_up": ["clerk"],
        "submit": ["clerk"],
        "approve": ["manager"],
    },
}

REMINDER = {
    "flow": "expenses.reminder",
    "version": 1,
    "start": "wait",
    "steps": [
        {"id": "wait", "type": "wait", "for": "30d"},
        {"id": "count", "type": "task", "task": "expenses.count", "output": {"drafts": "result.drafts"}},
        {
            "id": "tell",
            "type": "notification",
            "channel": "email",
            "to": "{workflow.to}",
            "text": "There are {workflow.drafts} expenses to hand in.",
        },
        {"id": "end", "type": "terminal"},
    ],
    "transitions": [
        {"from": "wait", "to": "count"},
        {"from": "count", "to": "tell"},
        {"from": "tell", "to": "end"},
    ],
}

app = assent.App().add(EXPENSE, REMINDER)


@app.action("expense.assign", payload={"cost_center": {"type": "text", "required": True}})
def assign(expense: assent.Entity, payload: Any) -> dict[str, Any]:
    return {"cost_center": payload["cost_center"].upper()}


@app.action("expense.round_up")
def round_up(expense: assent.Entity, payload: Any) -> dict[str, Any]:
    return {"total": -(-expense.data["total"] // 100) * 100}


@app.task("expenses.count", timeout="5m")
async def count(task: assent.TaskContext) -> dict[str, int]:
    """Runs in the background, and is tried again when it fails; the flow goes on with what it returns."""
    async with task.transaction() as connection:
        drafts = "SELECT count(*) FROM assent.entities WHERE entity_type = 'expense' AND state = 'draft'"
        return {"drafts": await connection.fetchval(drafts)}


if __name__ == "__main__":
    app.run(org="acme")
