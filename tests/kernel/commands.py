"""Commands to the kernel for acme, and what they leave behind."""

from typing import Any
from uuid import UUID

import pytest

from assent.kernel import Kernel
from assent.model.actor import Actor
from assent.model.mutation import Command, Entity, Refused, Rejection
from assent.store.database import Database
from tests.world import ANN, MAX, ORG, count, create


def command(action: str, actor: Actor = ANN, entity: Entity | None = None, **rest: Any) -> Command:
    payload = rest.pop("payload", {})
    given = {"org_id": ORG, "entity_id": entity.id if entity else None, **rest}
    return Command(action=action, actor=actor, payload=payload, **given)


async def create_expense(kernel: Kernel, **data: Any) -> Entity:
    return await create(kernel, "expense", {"title": "Taxi", "total": 1000, **data})


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


async def counts(database: Database) -> dict[str, int]:
    return {table: await count(database, table) for table in TABLES}


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
