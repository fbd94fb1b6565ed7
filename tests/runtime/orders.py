"""An order with a lifecycle, and a slot in which two people look at it: entities under a workflow."""

from typing import Any
from uuid import UUID

from assent.definitions import publish_contract, publish_patch
from assent.model.actor import SYSTEM, Actor
from assent.model.contract import contract_from
from assent.model.mutation import Command, Entity
from assent.runtime import Runtime
from assent.store.database import Database
from tests.runtime.flows import ANN, ORG

MAX = Actor("max", roles=frozenset({"manager"}))

ORDER: dict[str, Any] = {
    "contract": "order",
    "version": 1,
    "fields": {
        "number": {"type": "text", "required": True},
        "total": {"type": "money"},
        "checked_at": {"type": "datetime", "system": True},
    },
    "lifecycle": {
        "initial": "draft",
        "states": {
            "draft": {"edit": "editable"},
            "submitted": {"edit": "amend_only"},
            "active": {"edit": "locked"},
            "cancelled": {"edit": "locked"},
            "amended": {"edit": "editable"},
        },
        "transitions": {
            "submit": {"from": ["draft", "amended"], "to": "submitted"},
            "approve": {"from": "submitted", "to": "active", "approval": "required", "on_reject": "draft"},
            "cancel": {"from": ["draft", "submitted", "active"], "to": "cancelled"},
        },
    },
    "permissions": {"create": ["clerk"], "update": ["clerk"], "submit": ["clerk"], "cancel": ["manager"]},
}

LOOK: dict[str, Any] = {
    "patch": "order",
    "base": {"entity_type": "order", "envelope_version": 1},
    "slots": {
        "slot:submitted_to_approved": {
            "nodes": [
                {"id": "fork", "type": "parallel_split"},
                {"id": "stock", "type": "form", "waives_approval": True},
                {"id": "credit", "type": "form", "waives_approval": True},
                {"id": "both", "type": "parallel_join", "mode": "all"},
            ],
            "edges": [
                {"from": "in", "to": "fork"},
                {"from": "fork", "to": "stock"},
                {"from": "fork", "to": "credit"},
                {"from": "stock", "to": "both", "on": "done"},
                {"from": "credit", "to": "both", "on": "done"},
                {"from": "both", "to": "out"},
            ],
        }
    },
}


def looked_at(node: dict[str, Any], **slot: Any) -> dict[str, Any]:
    """A patch of one node, which stands in for the approval."""
    edges = [
        {"from": "in", "to": "it"},
        {"from": "it", "to": "out", **({"on": "done"} if node["type"] == "form" else {})},
    ]
    filled = {"nodes": [{"id": "it", "waives_approval": True, **node}], "edges": edges, **slot}
    return {**LOOK, "slots": {"slot:submitted_to_approved": filled}}


AT_ONCE = looked_at({"type": "script", "set": {"seen": "true"}})


async def publish_orders(database: Database, patch: dict[str, Any] | None = LOOK, **changes: Any) -> None:
    async with database.transaction(None) as connection:
        now = database.clock.now()
        await publish_contract(connection, contract_from({**ORDER, **changes}), SYSTEM, now)
        if patch is not None:
            await publish_patch(connection, ORG, patch, SYSTEM, now)


async def create_order(runtime: Runtime, **data: Any) -> Entity:
    payload = {"number": "1", "total": 500, **data}
    return (await runtime.core.kernel.mutate(Command(ORG, "order.create", ANN, payload))).entity


async def edit_order(runtime: Runtime, entity_id: UUID, **changes: Any) -> Entity:
    return (await runtime.core.kernel.mutate(Command(ORG, "order.update", ANN, changes, entity_id))).entity


async def order(runtime: Runtime, entity_id: UUID) -> dict[str, Any]:
    async with runtime.database.transaction(None) as connection:
        row = await connection.fetchrow(
            "SELECT * FROM assent.current_entities WHERE org_id = 'acme' AND id = $1", entity_id
        )
    assert row is not None
    return dict(row)
