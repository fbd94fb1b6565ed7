"""The demo's application: one contract, one action, three people, one rule."""

from typing import Any, Final

from assent.app import App
from assent.model.actor import Actor
from assent.model.mutation import Entity

ORG: Final = "northwind"

ANN: Final = Actor("ann", roles=frozenset({"clerk"}))
MAX: Final = Actor("max", roles=frozenset({"manager"}))

CONTRACT: Final[dict[str, Any]] = {
    "contract": "purchase",
    "version": 1,
    "workflow": "none",
    "fields": {
        "number": {"type": "text", "required": True, "max": 40},
        "vendor": {"type": "text", "required": True},
        "total": {"type": "money", "required": True, "min": 0},
        "cost_center": {"type": "text"},
    },
    "lifecycle": {
        "initial": "draft",
        "states": {"draft": {"edit": "editable"}, "submitted": {"edit": "locked"}},
        "transitions": {"submit": {"from": "draft", "to": "submitted"}},
    },
    "permissions": {
        "create": ["clerk"],
        "update": ["clerk"],
        "assign": ["clerk"],
        "submit": ["clerk"],
        "amend": ["manager"],
    },
}

RULE: Final[dict[str, Any]] = {
    "name": "budget",
    "entity_type": "purchase",
    "action": "submit",
    "timing": "before",
    "condition": "entity.total > org.budget && !(actor.roles contains 'manager')",
    "outcome": "deny",
    "then": {"message": "{entity.total} cents are over the budget of {org.budget}; ask a manager"},
}

app = App([CONTRACT])


@app.action("purchase.assign", payload={"cost_center": {"type": "text", "required": True}})
def assign(purchase: Entity, payload: Any) -> dict[str, Any]:
    """An action of the application's own: pure, from the entity and a payload to what changes."""
    return {"cost_center": payload["cost_center"].upper()}
