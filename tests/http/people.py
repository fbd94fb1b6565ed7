"""People whom a test adds to acme, each with a role of their own."""

from assent.store.database import Database


async def hire(
    database: Database, user: str, *capabilities: str, kind: str = "user", org: str = "acme"
) -> None:
    """A member whose one role, named after them, carries these capabilities and whom contracts do not know."""
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles, kind) VALUES ($1, $2, $2, ARRAY[$2 || 's'], $3)",
            org,
            user,
            kind,
        )
        await connection.executemany(
            "INSERT INTO assent.role_capabilities (org_id, role, capability) VALUES ($1, $2, $3)",
            [(org, f"{user}s", capability) for capability in capabilities],
        )
