"""A small company for the kernel's tests: two entity types, three people, one of them without rights."""

from typing import Any
from uuid import UUID

import pytest

from assent.kernel import Kernel
from assent.model.actor import Actor
from assent.model.mutation import Command, Entity, Mutation, Refused, Rejection
from assent.store.database import Database
from tests.twin import TWIN

ANN = Actor("ann", roles=frozenset({"clerk"}))
MAX = Actor("max", roles=frozenset({"manager"}))
EVE = Actor("eve")

EXPENSE: dict[str, Any] = {
    "contract": "expense",
    "version": 1,
    "workflow": "none",
    "fields": {
        "title": {"type": "text", "required": True, "max": 40},
        "total": {"type": "money", "required": True, "min": 0},
        "note": {"type": "text"},
        "posted_at": {"type": "datetime", "system": True},
    },
    "lifecycle": {
        "initial": "draft",
        "states": {"draft": {"edit": "editable"}, "posted": {"edit": "locked"}, "void": {"edit": "locked"}},
        "transitions": {"post": {"from": "draft", "to": "posted"}, "void": {"from": "posted", "to": "void"}},
    },
    "permissions": {"create": ["clerk"], "update": ["clerk"], "post": ["manager"], "void": ["manager"]},
}

INVOICE: dict[str, Any] = {
    "contract": "invoice",
    "version": 1,
    "fields": {"number": {"type": "text", "required": True}, "total": {"type": "money"}},
    "lifecycle": {
        "initial": "draft",
        "states": {
            "draft": {"edit": "editable"},
            "submitted": {"edit": "amend_only"},
            "active": {"edit": "locked"},
            "amended": {"edit": "editable"},
        },
        "transitions": {
            "submit": {"from": ["draft", "amended"], "to": "submitted"},
            "approve": {"from": "submitted", "to": "active", "approval": "required", "on_reject": "draft"},
        },
    },
    "permissions": {"create": ["clerk"], "update": ["clerk"], "submit": ["clerk"]},
}


def command(action: str, actor: Actor = ANN, entity: Entity | None = None, **rest: Any) -> Command:
    payload = rest.pop("payload", {})
    given = {"org_id": "acme", "entity_id": entity.id if entity else None, **rest}
    return Command(action=action, actor=actor, payload=payload, **given)


async def create_expense(kernel: Kernel, **payload: Any) -> Entity:
    outcome = await kernel.mutate(
        command("expense.create", payload={"title": "Taxi", "total": 1000, **payload})
    )
    return outcome.entity


async def create_invoice(kernel: Kernel, **payload: Any) -> Entity:
    outcome: Mutation = await kernel.mutate(command("invoice.create", payload={"number": "1", **payload}))
    return outcome.entity


async def posted_expense(kernel: Kernel) -> Entity:
    return (await kernel.mutate(command("expense.post", MAX, await create_expense(kernel)))).entity


TABLES = (
    "entities",
    "entity_versions",
    "audit_log",
    "workflow_events_outbox",
    "workflow_outbox_receipts",
    "workflow_rule_evaluations",
)


async def rows(database: Database, table: str) -> list[dict[str, Any]]:
    async with database.transaction(None) as connection:
        found = await connection.fetch(f"SELECT * FROM assent.{table}")  # noqa: S608
        return [dict(row) for row in found if row.get("org_id") != TWIN]


async def counts(database: Database) -> dict[str, int]:
    return {table: len(await rows(database, table)) for table in TABLES}


async def refused(kernel: Kernel, *args: Any, **rest: Any) -> Rejection:
    with pytest.raises(Refused) as caught:
        await kernel.mutate(command(*args, **rest))
    return caught.value.rejection


async def start_instance(database: Database, entity_id: UUID, instance_id: UUID | None, window: str) -> None:
    """What the engine does for an entity's instance: run it, and put its window on the entity."""
    async with database.transaction(None) as connection:
        await connection.execute(
            """INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version,
                 definition_hash, workflow_id, entity_type, entity_id, entity_version, subject_id)
               VALUES ('acme', $1, $1, 1, 'h', 'invoice', 'invoice', $2, 1, 'ann')""",
            instance_id,
            entity_id,
        )
        await connection.execute(
            "SELECT assent.set_edit_windows($1)",
            [
                {
                    "org_id": "acme",
                    "entity_id": entity_id,
                    "instance_id": instance_id,
                    "edit_window": window,
                    "ended": False,
                }
            ],
        )
