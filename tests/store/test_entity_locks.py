"""Locking entities: instances first, then rows, each by id; and a transaction that waited sees what the other wrote.

The races are staged: a step is taken only when the database says that the one before it waits for a lock.
"""

import asyncio
from uuid import UUID

import pytest

from tests.plain_sql import SERIALIZATION, refusal_of, refused, wait_until_blocked
from tests.rows import change_of, insert_entity, insert_instance_of, set_edit_windows, window, write_entities

LOCK = "SELECT * FROM assent.lock_entities($1, $2)"
HOLD_INSTANCE = "SELECT pg_advisory_xact_lock(hashtextextended($1::uuid::text, 0))"
TRY_INSTANCE = "SELECT pg_try_advisory_xact_lock(hashtextextended($1::uuid::text, 0))"
TRY_ROW = "SELECT FROM assent.entities WHERE id = $1 FOR UPDATE NOWAIT"
ROW_IS_BUSY = "55P03"

LOW, HIGH = UUID(int=1), UUID(int=2)


async def _entity_of_instance(connection, entity_id, instance_id):
    """An entity that is held by an instance; both with the ids that the test needs for its order."""
    entity = await insert_entity(connection, entity_id=entity_id)
    instance = await insert_instance_of(connection, entity, id=instance_id)
    await set_edit_windows(connection, window(entity, instance, "amend_only"))


def _lock(connection, *entity_ids):
    """Start to lock, in a task of its own: it may have to wait."""
    return asyncio.create_task(connection.fetch(LOCK, ["acme"] * len(entity_ids), list(entity_ids)))


async def _row_is_free(connection, entity_id):
    error = await refusal_of(connection, connection.execute(TRY_ROW, entity_id))
    assert error is None or error.sqlstate == ROW_IS_BUSY, error
    return error is None


async def test_answer_is_how_each_entity_stands_and_leaves_out_what_is_not_there(owner):
    first, second = await insert_entity(owner), await insert_entity(owner)
    found = await owner.fetch(LOCK, ["acme"] * 3, [second["id"], UUID(int=9), first["id"]])
    assert {entity["id"]: entity for entity in found} == {first["id"]: first, second["id"]: second}


async def test_instance_is_locked_before_the_row(database):
    async with database.transaction(None) as setup:
        await _entity_of_instance(setup, LOW, HIGH)
    async with database.transaction(None) as waiter, database.transaction(None) as third:
        async with database.transaction(None) as holder:
            await holder.execute(HOLD_INSTANCE, HIGH)
            locking = _lock(waiter, LOW)
            await wait_until_blocked(holder, waiter)
            async with database.transaction(None) as passer:
                assert await _row_is_free(passer, LOW)
        assert len(await locking) == 1
        assert not await _row_is_free(third, LOW)
        assert not await third.fetchval(TRY_INSTANCE, HIGH)


async def test_instances_are_locked_in_the_order_of_their_ids_whatever_the_order_asked(database):
    async with database.transaction(None) as setup:
        await _entity_of_instance(setup, HIGH, LOW)
        await _entity_of_instance(setup, LOW, HIGH)
    async with database.transaction(None) as waiter:
        async with database.transaction(None) as holder:
            await holder.execute(HOLD_INSTANCE, LOW)
            # By entity, or as asked, the instance HIGH would come first.
            locking = _lock(waiter, LOW, HIGH)
            await wait_until_blocked(holder, waiter)
            assert await holder.fetchval(TRY_INSTANCE, HIGH)
        assert len(await locking) == 2


async def test_rows_are_locked_in_the_order_of_their_ids_whatever_the_order_asked(database):
    async with database.transaction(None) as setup:
        for entity_id in (HIGH, LOW):
            await insert_entity(setup, entity_id=entity_id)
    async with database.transaction(None) as waiter:
        async with database.transaction(None) as holder:
            assert await _row_is_free(holder, LOW)
            locking = _lock(waiter, HIGH, LOW)
            await wait_until_blocked(holder, waiter)
            assert await _row_is_free(holder, HIGH)
        assert len(await locking) == 2


async def test_waiter_sees_the_version_that_the_first_committed(database):
    async with database.transaction(None) as setup:
        entity = await insert_entity(setup)
    async with database.transaction(None) as waiter:
        async with database.transaction(None) as holder:
            await holder.fetch(LOCK, ["acme"], [entity["id"]])
            locking = _lock(waiter, entity["id"])
            await wait_until_blocked(holder, waiter)
            await write_entities(holder, change_of(entity, data={"number": "2"}))
        (found,) = await locking
        assert (found["version"], found["data"]) == (2, {"number": "2"})
        await write_entities(waiter, change_of(found, data={"number": "3"}))


async def test_waiter_sees_the_window_that_the_first_committed(database):
    async with database.transaction(None) as setup:
        entity = await insert_entity(setup)
    async with database.transaction(None) as waiter:
        async with database.transaction(None) as holder:
            await holder.fetch(LOCK, ["acme"], [entity["id"]])
            locking = _lock(waiter, entity["id"])
            await wait_until_blocked(holder, waiter)
            await write_entities(holder, change_of(entity, state="active", edit_window="locked"))
        (found,) = await locking
        assert found["edit_window"] == "locked"
        async with refused(waiter, "AS007"):
            await write_entities(waiter, change_of(found, data={"number": "3"}))


async def test_edit_that_did_not_lock_first_still_loses_against_the_one_that_locks_the_window(database):
    async with database.transaction(None) as setup:
        entity = await insert_entity(setup)
    async with database.transaction(None) as late:
        async with database.transaction(None) as gate:
            await write_entities(gate, change_of(entity, state="active", edit_window="locked"))
            edit = asyncio.create_task(
                refusal_of(late, write_entities(late, change_of(entity, data={"number": "2"})))
            )
            await wait_until_blocked(gate, late)
        assert (await edit).sqlstate == SERIALIZATION


async def test_instance_that_came_while_waiting_is_locked_too(database):
    async with database.transaction(None) as setup:
        entity = await insert_entity(setup)
    async with database.transaction(None) as waiter:
        async with database.transaction(None) as holder:
            await holder.fetch(LOCK, ["acme"], [entity["id"]])
            locking = _lock(waiter, entity["id"])
            await wait_until_blocked(holder, waiter)
            instance = await insert_instance_of(holder, entity)
            await set_edit_windows(holder, window(entity, instance, "amend_only"))
        (found,) = await locking
        assert found["instance_id"] == instance["id"]
        async with database.transaction(None) as third:
            assert not await third.fetchval(TRY_INSTANCE, instance["id"])


async def test_instance_that_came_while_waiting_and_is_busy_asks_for_a_retry(database):
    async with database.transaction(None) as setup:
        entity = await insert_entity(setup)
    async with database.transaction(None) as waiter, database.transaction(None) as busy:
        async with database.transaction(None) as holder:
            await holder.fetch(LOCK, ["acme"], [entity["id"]])
            locking = asyncio.create_task(refusal_of(waiter, waiter.fetch(LOCK, ["acme"], [entity["id"]])))
            await wait_until_blocked(holder, waiter)
            instance = await insert_instance_of(holder, entity)
            await set_edit_windows(holder, window(entity, instance, "amend_only"))
            await busy.execute(HOLD_INSTANCE, instance["id"])
        error = await locking
        assert error.sqlstate == SERIALIZATION
        assert "an instance started while its entity was being locked" in str(error)


@pytest.mark.parametrize("asked", [(LOW, HIGH), (HIGH, LOW)])
async def test_two_that_lock_the_same_entities_in_opposite_order_do_not_deadlock(database, asked):
    async with database.transaction(None) as setup:
        await _entity_of_instance(setup, LOW, HIGH)
        await _entity_of_instance(setup, HIGH, LOW)
    async with database.transaction(None) as second:
        async with database.transaction(None) as first:
            assert len(await _lock(first, *asked)) == 2
            locking = _lock(second, *reversed(asked))
            await wait_until_blocked(first, second)
        assert len(await locking) == 2
