"""A transaction under way as a database: what is run in it commits or rolls back with it, each piece by itself."""

import asyncpg
import pytest

from assent.store.caller_transaction import CallerDatabase
from tests.rows import insert_member


async def _members(database) -> list[str]:
    async with database.transaction("acme") as connection:
        return [
            row["user_id"] for row in await connection.fetch("SELECT user_id FROM assent.members ORDER BY 1")
        ]


async def test_work_commits_with_the_transaction_that_it_joined(database):
    async with database.transaction("acme") as connection:
        joined = CallerDatabase(database, connection, "acme")
        await joined.run(lambda inner: insert_member(inner, user_id="ann"), org_id="acme")
        assert await _members(database) == []
    assert await _members(database) == ["ann"]


async def test_work_is_rolled_back_with_the_transaction_that_it_joined(database):
    async def outer(connection):
        joined = CallerDatabase(database, connection, "acme")
        await joined.run(lambda inner: insert_member(inner, user_id="ann"), org_id="acme")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await database.run(outer, org_id="acme")
    assert await _members(database) == []


async def test_a_failure_undoes_its_own_piece_and_leaves_the_transaction_good(database):
    async def twice(inner):
        await insert_member(inner, user_id="bob")
        await insert_member(inner, user_id="bob")

    async with database.transaction("acme") as connection:
        joined = CallerDatabase(database, connection, "acme")
        await joined.run(lambda inner: insert_member(inner, user_id="ann"), org_id="acme")
        with pytest.raises(asyncpg.UniqueViolationError):
            await joined.run(twice, org_id="acme")
    assert await _members(database) == ["ann"]


async def test_what_loses_against_others_is_not_repeated_inside(database):
    runs = []

    async def lose(_):
        runs.append(1)
        raise asyncpg.SerializationError

    async with database.transaction("acme") as connection:
        with pytest.raises(asyncpg.SerializationError):
            await CallerDatabase(database, connection, "acme").run(lose, org_id="acme")
    assert len(runs) == 1


@pytest.mark.parametrize("org_id", ["globex", None])
async def test_work_for_another_org_is_refused(database, org_id):
    async with database.transaction("acme") as connection:
        joined = CallerDatabase(database, connection, "acme")
        with pytest.raises(ValueError, match="expected work for org 'acme'"):
            await joined.run(insert_member, org_id=org_id)
