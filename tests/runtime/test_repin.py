"""Instances of a stale definition: refused as they are, moved by a control step, and then they go on."""

import pytest

from assent.app import App
from assent.definitions import recompile
from assent.kernel.entities import read_entity
from assent.model.mutation import Refused
from assent.runtime import Runtime
from assent.runtime.operation_commands import repin
from assent.store.database import Database
from tests.authored import END, arrows, form
from tests.runtime.definitions import older_compiler
from tests.world import ANN, OPS, ORDER, ORG, create_order, drain, publish, publish_steps, rows, steps_of


async def start_long_ago(app: App, database: Database, count: int) -> list:
    """Instances that an earlier release started, each waiting for somebody."""
    with older_compiler():
        await publish_steps(database, "a.b", [form("ask"), END], arrows("ask", "end", event="done"))
        earlier = app.runtime(database)
        return [await earlier.org(ORG, ANN).instances.start("a.b") for _ in range(count)]


def repinning(runtime: Runtime):
    return lambda moves: repin(runtime.database, runtime.core.advancing, moves)


async def test_instances_of_a_stale_definition_go_on_once_they_are_moved(app, runtime, database):
    started = await start_long_ago(app, database, 3)
    with pytest.raises(Refused) as caught:
        await runtime.org(ORG, ANN).instances.advance(started[0].id, "done")
    assert caught.value.code == "WORKFLOW_COMPILER_STALE"
    (recompiled,) = await recompile(database, repinning(runtime))
    assert (recompiled.moved, recompiled.staying) == (3, ())
    for view in started:
        assert (await runtime.org(ORG, ANN).instances.advance(view.id, "done")).status == "completed"
    new = recompiled.new
    pins = {
        (row["definition_id"], row["definition_version"], row["definition_hash"])
        for row in await rows(database, "workflow_instances")
    }
    assert pins == {(new.id, new.version, new.compiled_hash)}


async def test_move_is_a_step_that_names_the_new_definition(app, runtime, database):
    (view,) = await start_long_ago(app, database, 1)
    (recompiled,) = await recompile(database, repinning(runtime))
    (step,) = [row for row in await steps_of(database, view.id) if row["node_id"] == "ctl:repin"]
    assert (step["status"], step["actor_user_id"]) == ("completed", "system")
    assert step["output_json"]["definition_hash"] == recompiled.new.compiled_hash


async def test_paused_instances_move_and_stay_paused(app, runtime, database):
    (view,) = await start_long_ago(app, database, 1)
    with older_compiler():
        await app.runtime(database).org(ORG, OPS).instances.pause(view.id)
    (recompiled,) = await recompile(database, repinning(runtime))
    assert recompiled.moved == 1
    assert (await runtime.org(ORG, OPS).instances.resume(view.id)).status == "running"


async def test_instance_that_ended_before_its_turn_stays_as_it_ended(app, runtime, database):
    (view,) = await start_long_ago(app, database, 1)

    async def too_late(moves):
        with older_compiler():
            await app.runtime(database).org(ORG, ANN).instances.cancel(view.id, "enough")
        await repin(database, runtime.core.advancing, moves)

    (recompiled,) = await recompile(database, too_late)
    (row,) = await rows(database, "workflow_instances")
    assert (row["status"], row["definition_id"]) == ("cancelled", recompiled.old.id)


async def test_instances_of_entities_move_also_without_the_application_at_hand(app, runtime, database):
    with older_compiler():
        await publish(database, ORDER)
        entity = await create_order(runtime)
        await drain(app.runtime(database))
    (recompiled,) = await recompile(database, repinning(App().runtime(database)))
    assert (recompiled.old.org_id, recompiled.moved) == ("*", 1)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    assert view.id == entity.instance_id
    async with database.transaction(ORG) as connection:
        assert (await read_entity(connection, ORG, entity.id)).state == "submitted"
