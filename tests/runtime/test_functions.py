"""What programs in any language can ask in SQL: told like any other event, with the caller's own rows."""

import asyncpg
import pytest

from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END
from tests.world import ANN, ORG, drain, publish_steps, rows

WAIT = {"id": "paid", "type": "wait", "key": "paid:{workflow.order}", "output": {"amount": "result.amount"}}
WAYS = [{"from": "paid", "event": "completed", "to": "end"}]
EMIT = "SELECT assent.emit_event($1, $2::jsonb, $3)"


async def test_an_event_from_sql_reaches_whoever_waits(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "orders", [WAIT, END], WAYS)
    view = await runtime.org(ORG, ANN).instances.start("orders", {"order": 7})
    async with database.transaction(ORG) as connection:
        assert await connection.fetchval(EMIT, "paid:7", {"amount": 5}, None) is True
    await drain(runtime)
    (instance,) = await rows(database, "workflow_instances")
    assert (instance["id"], instance["status"], instance["context_json"]["amount"]) == (
        view.id,
        "completed",
        5,
    )


async def test_one_cause_tells_it_once(runtime: Runtime, database: Database) -> None:
    async with database.transaction(ORG) as connection:
        told = [
            await connection.fetchval(EMIT, "paid:7", None, cause) for cause in ("a", "a", "b", None, None)
        ]
    assert told == [True, False, True, True, True]
    assert len(await rows(database, "workflow_events_outbox")) == 4


async def test_what_the_caller_rolls_back_was_never_told(runtime: Runtime, database: Database) -> None:
    async def emit_and_fail() -> None:
        async with database.transaction(ORG) as connection:
            await connection.execute(EMIT, "paid:7", None, None)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await emit_and_fail()
    assert await rows(database, "workflow_events_outbox") == []


@pytest.mark.parametrize("key", ["", None])
async def test_an_event_without_a_key_is_refused(database: Database, key: str | None) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="needs a key"):
        async with database.transaction(ORG) as connection:
            await connection.execute(EMIT, key, None, None)


async def test_an_event_without_an_org_is_refused(database: Database) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="needs an org"):
        async with database.transaction(None) as connection:
            await connection.execute(EMIT, "paid:7", None, None)
