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


async def reopen_forms(database: Database, instance_id: UUID) -> None:
    """Make the rows of an instance's forms forget that they were answered; the guards are off meanwhile."""
    async with database.transaction(None) as connection:
        for switch in ("DISABLE", "ENABLE"):
            for table, end in (("workflow_forms", "ended_at"), ("workflow_seats", "closed_at")):
                await connection.execute(f"ALTER TABLE assent.{table} {switch} TRIGGER USER")
                if switch == "DISABLE":
                    await connection.execute(
                        f"UPDATE assent.{table} SET status = 'open', {end} = NULL"  # noqa: S608
                        " WHERE org_id = 'acme' AND instance_id = $1",
                        instance_id,
                    )
