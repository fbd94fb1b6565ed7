"""Every named statement of the package is understood by PostgreSQL, against the schema as migrated."""

import asyncpg
import pytest

from assent.store.queries import all_statements

STATEMENTS = all_statements()


@pytest.fixture(scope="module")
async def connection(databases, template):
    async with databases.fresh(template) as url:
        connection = await asyncpg.connect(url)
        yield connection
        await connection.close()


def test_there_are_statements():
    assert STATEMENTS


@pytest.mark.parametrize(
    "statement", STATEMENTS, ids=lambda statement: f"{statement.source}:{statement.name}"
)
async def test_statement_prepares(connection, statement):
    await connection.prepare(statement.sql)


async def test_a_statement_that_does_not_fit_the_schema_is_noticed(connection):
    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.prepare("select 1 from assent.no_such_table")
