"""Receipts: the transaction that inserts one may act; none is inserted twice, in whatever month, however they race."""

# ruff: noqa: S608 - the names of tables are in this file

import asyncio
from datetime import timedelta

import pytest

from tests.blank_rows import row
from tests.plain_sql import acting_for, wait_until_blocked
from tests.postgres import START
from tests.rows import insert

KEYS = {
    "workflow_step_receipts": ("org_id", "instance_id", "idempotency_key"),
    "workflow_outbox_receipts": ("org_id", "instance_id", "source_table", "event_idempotency_key"),
}

OTHER = {
    "org_id": "globex",
    "instance_id": "00000000-0000-7000-8000-000000000001",
    "idempotency_key": "another",
    "event_idempotency_key": "another",
    "source_table": "side_effects",
}


async def _is_first(connection, table, receipt):
    """Insert a receipt as the engine does; whether it was the first."""
    columns, marks = ", ".join(receipt), ", ".join(f"${number}" for number in range(1, len(receipt) + 1))
    sql = f"INSERT INTO assent.{table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING RETURNING true"
    return await connection.fetchval(sql, *receipt.values()) is True


@pytest.mark.parametrize("table", KEYS)
async def test_second_receipt_is_a_value_and_not_an_error_also_a_year_later(owner, table):
    receipt = row(table, created_at=START)
    async with acting_for(owner, "acme"):
        assert await _is_first(owner, table, receipt)
        assert not await _is_first(owner, table, receipt)
        assert not await _is_first(owner, table, receipt | {"created_at": START + timedelta(days=365)})


@pytest.mark.parametrize(
    ("table", "part"), [(table, part) for table, parts in KEYS.items() for part in parts]
)
async def test_receipt_that_differs_in_any_part_of_its_key_is_another(owner, table, part):
    receipt = row(table)
    assert await _is_first(owner, table, receipt)
    assert await _is_first(owner, table, receipt | {part: OTHER[part]})


@pytest.mark.parametrize("table", KEYS)
async def test_of_two_at_once_the_second_waits_and_then_finds_itself_second(database, table):
    receipt = row(table)
    async with database.transaction("acme") as second:
        async with database.transaction("acme") as first:
            assert await _is_first(first, table, receipt)
            racing = asyncio.create_task(_is_first(second, table, receipt))
            await wait_until_blocked(first, second)
        assert not await racing


@pytest.mark.parametrize("table", KEYS)
async def test_receipt_of_an_attempt_that_was_rolled_back_is_free_again(database, table):
    receipt = row(table)
    async with database.transaction("acme") as second:
        async with database.transaction("acme") as first:
            attempt = first.transaction()
            await attempt.start()
            await insert(first, table, **receipt)
            racing = asyncio.create_task(_is_first(second, table, receipt))
            await wait_until_blocked(first, second)
            await attempt.rollback()
        assert await racing
