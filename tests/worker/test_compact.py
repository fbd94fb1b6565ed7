"""Compact: old outputs shrink to what a rebuild needs, once, and their evidence is kept beside them."""

import ast
import asyncio
from datetime import UTC, datetime, timedelta
from inspect import getsource
from uuid import UUID

import pytest

from assent.engine import evolve
from assent.runtime.views import list_steps
from assent.store.database import Database
from assent.worker.duty import RunResult
from assent.worker.upkeep import KEPT_KEYS, Compact
from tests.postgres import START, past_the_guards
from tests.rows import insert_instance, insert_step, update
from tests.workers import run_until_done, second_worker, with_options
from tests.world import fetch

YEAR_LATER = datetime(2027, 3, 2, 9, 0, 0, 1, tzinfo=UTC)

EVIDENCE = {
    "n": 4,
    "outcome": "approved",
    "chosen_edge_ids": ["e1"],
    "set": {"lane": "fast"},
    "evaluations": [{"expression": "entity.total > 1", "result": True}],
    "result": {"status": 200, "body": "x" * 200},
}
COMPACTED = {
    "n": 4,
    "outcome": "approved",
    "chosen_edge_ids": ["e1"],
    "set": {"lane": "fast"},
    "compacted": True,
}


async def steps_of(database: Database, org_id: str = "acme", number: int = 1, **given):
    given = {"status": "completed", "output_json": EVIDENCE} | given
    async with database.transaction(None) as connection:
        instance = await insert_instance(connection, org_id=org_id)
        about = {"org_id": org_id, "instance_id": instance["id"]}
        return [await insert_step(connection, **about | given) for _ in range(number)]


async def outputs(database: Database):
    rows = await fetch(
        database,
        "SELECT output_json FROM assent.workflow_step_executions WHERE org_id <> 'aatwin' ORDER BY created_at, id",
    )
    return [row["output_json"] for row in rows]


async def test_output_shrinks_when_the_step_is_twelve_months_old(place, database, clock):
    await steps_of(database)
    clock.move_to(YEAR_LATER - timedelta(microseconds=1))
    assert await run_until_done(Compact(place)) == RunResult(0)
    assert await outputs(database) == [EVIDENCE]
    clock.move_to(YEAR_LATER)
    assert await run_until_done(Compact(place)) == RunResult(1)
    assert await outputs(database) == [COMPACTED]
    assert await run_until_done(Compact(place)) == RunResult(0)


async def test_everything_else_about_the_step_stays(place, database, clock):
    await steps_of(database, input_json={"total": 7}, error="no", actor_user_id="ann")
    sql = "SELECT to_jsonb(s) - 'output_json' AS rest FROM assent.workflow_step_executions s WHERE org_id <> 'aatwin'"
    before = await fetch(database, sql)
    clock.move_to(YEAR_LATER)
    await run_until_done(Compact(place))
    assert await fetch(database, sql) == before


async def test_evidence_that_an_output_loses_is_kept_beside_it(place, database, clock):
    (step,) = await steps_of(database)
    clock.move_to(YEAR_LATER)
    await run_until_done(Compact(place))
    (kept,) = await fetch(database, "SELECT * FROM assent.step_evidence WHERE org_id <> 'aatwin'")
    assert dict(kept) == {
        "org_id": "acme",
        "step_created_at": START,
        "step_id": step["id"],
        "instance_id": step["instance_id"],
        "evidence": {name: EVIDENCE[name] for name in ("evaluations", "result")},
    }


async def test_evidence_of_a_dead_letter_that_is_sent_again_joins_what_was_taken_out(place, database, clock):
    sent = {"a": {"status": 200}, "b": {"status": 500}}
    (step,) = await steps_of(database, output_json={"n": 1, "evidence": sent})
    clock.move_to(YEAR_LATER)
    await run_until_done(Compact(place))
    async with database.transaction(None) as connection:
        again = {"n": 1, "compacted": True, "evidence": {"b": {"status": 201}}}
        await update(connection, "workflow_step_executions", step, output_json=again)
        (row,) = await list_steps(connection, "acme", step["instance_id"], None, 2)
    assert row["output_json"] == {"n": 1, "evidence": {"a": {"status": 200}, "b": {"status": 201}}}


@pytest.mark.parametrize("status", ["pending", "running"])
async def test_step_that_has_not_ended_is_passed_by(place, database, clock, status):
    await steps_of(database, status=status)
    clock.move_to(YEAR_LATER)
    assert await run_until_done(Compact(place)) == RunResult(0)
    assert await outputs(database) == [EVIDENCE]


@pytest.mark.parametrize("output", [None, {}, {"n": 1, "outcome": "done"}, [1, 2], "text"])
async def test_output_with_nothing_to_drop_is_not_written(place, database, clock, output):
    await steps_of(database, output_json=output)
    clock.move_to(YEAR_LATER)
    assert await run_until_done(Compact(place)) == RunResult(0)
    assert await outputs(database) == [output]


async def test_output_without_anything_to_keep_says_that_it_was_compacted(place, database, clock):
    await steps_of(database, output_json={"result": 1})
    clock.move_to(YEAR_LATER)
    assert await run_until_done(Compact(place)) == RunResult(1)
    assert await outputs(database) == [{"compacted": True}]


@pytest.mark.without_twin("orgs are compacted one after the other, each in batches of its own")
async def test_batches_go_on_where_the_last_one_ended_through_steps_of_the_same_instant(
    place, database, clock
):
    for org_id in ("acme", "globex"):
        await steps_of(database, org_id, 5)
    clock.move_to(YEAR_LATER)
    duty = Compact(with_options(place, compact_steps_max=2))
    assert await duty.run_once() == RunResult(2, more=True)
    assert await run_until_done(duty) == RunResult(8)
    assert await outputs(database) == [COMPACTED] * 10


async def test_steps_that_grow_old_later_are_compacted_later_and_the_young_are_not(place, database, clock):
    for day in (0, 10, 40):
        await steps_of(database, created_at=START + timedelta(days=day))
    duty = Compact(place)
    counts = []
    for day in (0, 9, 10, 39, 40):
        clock.move_to(YEAR_LATER + timedelta(days=day))
        counts.append((await run_until_done(duty)).count)
    assert counts == [1, 0, 1, 0, 1]


async def test_progress_is_looked_at_and_not_the_whole_past(place, database, clock):
    await steps_of(database, number=6)
    clock.move_to(YEAR_LATER)
    await run_until_done(Compact(place))
    (noted,) = await fetch(database, "SELECT * FROM assent.step_compactions WHERE org_id <> 'aatwin'")
    last = max(
        row["id"]
        for row in await fetch(
            database, "SELECT id FROM assent.workflow_step_executions WHERE org_id <> 'aatwin'"
        )
    )
    assert (noted["org_id"], noted["step_created_at"], noted["step_id"]) == ("acme", START, UUID(str(last)))
    # What lies behind the mark is not looked at again, in whatever state it is.
    async with past_the_guards(database.url) as connection:
        await connection.execute(
            "UPDATE assent.workflow_step_executions SET output_json = '{\"result\": 1}' WHERE org_id = 'acme'"
        )
    assert await run_until_done(Compact(place)) == RunResult(0)


async def test_of_two_workers_one_compacts_and_the_other_does_not_wait(place, database, clock):
    await steps_of(database, number=3)
    clock.move_to(YEAR_LATER)
    async with database.transaction(None) as first:
        await first.fetchval("SELECT pg_advisory_xact_lock(hashtextextended('assent.compact', 0))")
        assert await Compact(place).run_once() == RunResult(0)
    assert await run_until_done(Compact(place)) == RunResult(3)


async def test_two_workers_at_once_compact_every_step_once(place, database, clock):
    await steps_of(database, number=30)
    clock.move_to(YEAR_LATER)
    place = with_options(place, compact_steps_max=2)
    async with second_worker(place) as other:
        done = await asyncio.gather(run_until_done(Compact(place)), run_until_done(Compact(other)))
        assert sum(each.count for each in done) + (await run_until_done(Compact(place))).count == 30
    assert await outputs(database) == [COMPACTED] * 30


def test_every_key_that_a_rebuild_reads_is_kept():
    """`evolve` folds steps into the instance; whatever it reads of an output must outlive compaction."""
    read = set()
    for node in ast.walk(ast.parse(getsource(evolve))):
        match node:
            case ast.Subscript(value=value, slice=ast.Constant(value=str(key))) if _is_output(value):
                read.add(key)
            case ast.Call(
                func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=str(key)), *_]
            ) if _is_output(value):
                read.add(key)
            case ast.Compare(left=ast.Constant(value=str(key)), comparators=[value]) if _is_output(value):
                read.add(key)
    assert {"n", "chosen_edge_ids", "set"} <= read <= set(KEPT_KEYS)


def _is_output(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="output") | ast.Attribute(attr="output"):
            return True
    return False
