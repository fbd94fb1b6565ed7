"""What a bug, a restored backup or a stranger may do to an instance's row: put it back to how it was before."""

from typing import Any
from uuid import UUID

from assent.store.database import Database

_PROJECTION = ("active_tokens", "current_nodes", "context_json", "version", "generation", "chain_length")


async def projection(database: Database, instance_id: UUID) -> dict[str, Any]:
    """The part of an instance's row that follows from its steps."""
    async with database.transaction(None) as connection:
        row = await connection.fetchrow(
            "SELECT * FROM assent.workflow_instances WHERE org_id = 'acme' AND id = $1", instance_id
        )
    assert row is not None
    return {column: row[column] for column in _PROJECTION}


async def put_back(database: Database, instance_id: UUID, before: dict[str, Any]) -> None:
    """Make the row forget every step since `before`."""
    settings = ", ".join(f"{column} = ${number}" for number, column in enumerate(before, start=2))
    async with database.transaction(None) as connection:
        sql = f"UPDATE assent.workflow_instances SET {settings} WHERE org_id = 'acme' AND id = $1"  # noqa: S608
        assert await connection.execute(sql, instance_id, *before.values()) == "UPDATE 1"
