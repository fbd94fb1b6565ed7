"""A database that many tests may share, since each undoes what it did."""

from collections.abc import AsyncIterator

import pytest

from assent.store.connection import Connection, connect
from tests.postgres import SETTINGS, START, Databases


@pytest.fixture(scope="session")
async def shared_connection(databases: Databases, template: str) -> AsyncIterator[Connection]:
    async with databases.fresh(template) as url:
        connection = await connect(url, SETTINGS)
        yield connection
        await connection.close()


@pytest.fixture
async def owner(shared_connection: Connection) -> AsyncIterator[Connection]:
    """The owner's connection in a transaction that is rolled back at the end; the time is START."""
    transaction = shared_connection.transaction()
    await transaction.start()
    await shared_connection.execute("SELECT set_config('assent.now', $1, true)", START.isoformat())
    try:
        yield shared_connection
    finally:
        await transaction.rollback()
