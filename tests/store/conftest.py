"""A database that many tests may share, since each undoes what it did."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from assent.store.connection import Connection, connect
from assent.store.roles import CLIENT_ROLE
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


@pytest.fixture
async def login(postgres_url: str) -> AsyncIterator[str]:
    """The login role of a host application that has joined the client's role."""
    name = f"host_{uuid4().hex[:12]}"
    administrator = await connect(postgres_url, SETTINGS)
    await administrator.execute(f"CREATE ROLE {name} LOGIN IN ROLE {CLIENT_ROLE}")
    yield name
    await administrator.execute(f"DROP ROLE {name}")
    await administrator.close()
