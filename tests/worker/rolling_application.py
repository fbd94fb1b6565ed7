"""An application in two versions: the newer one declares operations, a task and an action more."""

import assent

EXPENSE = {
    "contract": "expense",
    "version": 1,
    "workflow": "none",
    "fields": {"title": {"type": "text", "required": True}},
    "lifecycle": {"initial": "draft", "states": {"draft": {"edit": "editable"}}, "transitions": {}},
    "permissions": {"create": ["clerk"], "note": ["clerk"]},
}

FLOW = {
    "flow": "rolling",
    "version": 1,
    "start": "inside",
    "steps": [
        {"id": "inside", "type": "system", "operation": {"sdk": "new.inside"}},
        {"id": "outside", "type": "system", "operation": {"sdk": "new.outside"}},
        {"id": "work", "type": "task", "task": "new.work", "input": {}},
        {"id": "end", "type": "terminal"},
    ],
    "transitions": [
        {"from": "inside", "event": "completed", "to": "outside"},
        {"from": "outside", "event": "completed", "to": "work"},
        {"from": "work", "event": "completed", "to": "end"},
    ],
}


def old_app() -> assent.App:
    """Return the application as it was."""
    return assent.App([EXPENSE])


def new_app() -> assent.App:
    """Return the application as it is now."""
    app = assent.App([EXPENSE])

    @app.operation("new.inside")
    def inside(connection, arguments):
        return {"by": "newer code"}

    @app.operation("new.outside", outside=True)
    def outside(arguments, key):
        return {"by": "newer code"}

    @app.task("new.work")
    def work() -> dict[str, str]:
        return {"by": "newer code"}

    @app.action("expense.note")
    def note(expense, payload):
        return {"title": f"{expense.data['title']}, noted"}

    return app


old, new = old_app(), new_app()
