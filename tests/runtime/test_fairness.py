"""Fairness: one org's backlog is not another org's wait."""

import pytest

from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.database import Database
from tests.runtime.flows import ANN, END, arrows, publish, rows, script
from tests.runtime.test_events import wait

BACKLOG = """
INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json,
       event_idempotency_key)
SELECT 'big', $1::timestamptz + n * interval '1 microsecond', gen_random_uuid(),
       CASE WHEN $2 THEN gen_random_uuid() END,
       CASE WHEN $2 THEN 'on_start' ELSE 'on_event' END,
       CASE WHEN $2 THEN '{"flow": "quick", "actor": "ann"}' ELSE jsonb_build_object('key', 'k' || n) END, n::text
  FROM generate_series(1, 50000) AS n
"""


@pytest.mark.parametrize("small", ["aaa", "zzz"])
@pytest.mark.parametrize("started", [True, False], ids=["starts", "arrivals"])
async def test_backlog_of_one_org_does_not_make_another_wait(
    runtime: Runtime, database: Database, clock: MovedClock, small: str, started: bool
) -> None:
    """Fifty thousand events of one org were there first; the single one of another is handled within two batches."""
    steps = [wait("a"), END]
    for org in ("big", small):
        await publish(database, "paid", steps, arrows("a", "end"), org=org)
        await publish(database, "quick", [script("one"), END], arrows("one", "end"), org=org)
    view = await runtime.start(small, "paid", ANN, {"order": "7"})
    async with database.transaction(None) as connection:
        await connection.execute(BACKLOG, clock.now(), started)
    clock.advance("1h")
    if started:
        await runtime.start_many(small, "quick", ANN, [{}])
    else:
        await runtime.emit(small, "a:7")
    handled = [await runtime.process_events(200) for _ in range(2)]
    assert sum(handled) <= 2 * 200 + 2
    mine = [row for row in await rows(database, "workflow_instances") if row["org_id"] == small]
    done = [row["workflow_id"] for row in mine if row["status"] == "completed"]
    assert done == ["quick" if started else "paid"], view.id
