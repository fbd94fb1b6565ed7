"""Acme with its people, in a transaction of the application's own role."""

from collections.abc import AsyncIterator

import pytest

from assent.store.connection import Connection
from assent.store.database import Database
from tests.approvals.staff import insert_staff
from tests.rows import insert_member


@pytest.fixture
async def staffed(database: Database) -> Database:
    """A database whose acme has its staff, and globex a few people of the same names."""
    async with database.transaction(None) as connection:
        await insert_staff(connection)
        for user_id in ("ann", "fay", "zoe"):
            await insert_member(connection, org_id="globex", user_id=user_id, roles=["finance"])
    return database


@pytest.fixture
async def acme(staffed: Database) -> AsyncIterator[Connection]:
    async with staffed.transaction("acme") as connection:
        yield connection
