"""A newer compiler: what is stale is refused, and compiled anew from its source with the instances that it has."""

import pytest

from assent.compiler import COMPILER_VERSION
from assent.compiler.build import hashed
from assent.definitions import Definitions, Pin, recompile
from assent.model.mutation import Refused
from assent.model.workflow import Workflow
from tests.rows import insert_instance
from tests.runtime.definitions import (
    contract,
    definition_rows,
    flow,
    flow_of_system,
    older_compiler,
    patch,
    statuses,
    tamper,
)
from tests.world import publish


class Repinned:
    """Moves instances as the engine does, less its control step; remembers in which batches."""

    def __init__(self, database):
        self.database = database
        self.batches = []

    async def __call__(self, moves):
        self.batches.append(moves)
        async with self.database.transaction(None) as connection:
            for move in moves:
                await connection.execute(
                    """UPDATE assent.workflow_instances
                          SET definition_id = $3, definition_version = $4, definition_hash = $5
                        WHERE org_id = $1 AND id = $2 AND definition_id = $6""",
                    move.new.org_id,
                    move.instance_id,
                    move.new.id,
                    move.new.version,
                    move.new.hash,
                    move.old.id,
                )

    @property
    def moves(self):
        return [move for batch in self.batches for move in batch]


@pytest.fixture
def repin(database):
    return Repinned(database)


async def start(database, definition, org_id="acme", **given):
    """A running instance of a definition, as far as its pin goes."""
    pin = {"definition_id": definition.id, "definition_version": definition.version}
    async with database.transaction(None) as connection:
        return await insert_instance(
            connection, org_id=org_id, **pin, definition_hash=definition.compiled_hash, **given
        )


async def publish_long_ago(database, source, org_id="acme"):
    with older_compiler():
        return (await publish(database, source, org_id)).effective


async def test_stale_flow_is_refused_until_it_is_recompiled(database, definitions, repin):
    old = await publish_long_ago(database, flow())
    async with database.transaction("acme") as connection:
        with pytest.raises(Refused) as caught:
            await definitions.for_flow(connection, "acme", "hello")
    assert (caught.value.code, "assent definitions recompile" in caught.value.rejection.hint) == (
        "WORKFLOW_COMPILER_STALE",
        True,
    )
    (recompiled,) = await recompile(database, repin)
    assert (recompiled.old.id, recompiled.new.version, recompiled.same_graph) == (old.id, 2, True)
    assert await statuses(database, "flow", "hello", "acme") == [(1, "archived"), (2, "published")]
    async with database.transaction("acme") as connection:
        found = await definitions.for_flow(connection, "acme", "hello")
    assert (found.id, found.workflow.compiler_version) == (recompiled.new.id, COMPILER_VERSION)


async def test_contracts_and_patches_are_recompiled_from_their_envelope(database, definitions, repin):
    with older_compiler():
        await publish(database, contract())
        await publish(database, patch(), "acme")
    found = await recompile(database, repin)
    assert [(one.old.org_id, one.new.version, one.same_graph) for one in found] == [
        ("*", 2, True),
        ("acme", 2, True),
    ]
    async with database.transaction(None) as connection:
        own = await definitions.for_entity(connection, "acme", "invoice")
        everybodys = await definitions.for_entity(connection, "globex", "invoice")
    assert [own.id, everybodys.id] == [found[1].new.id, found[0].new.id]
    assert len(await definition_rows(database, definition_kind="envelope")) == 1
    assert (await publish(database, patch(due="24h"), "acme")).changed


async def test_running_and_paused_instances_move_and_ended_ones_stay(database, definitions, repin):
    old = await publish_long_ago(database, flow(), "*")
    started = [
        await start(database, old, org_id, status=status)
        for org_id in ("acme", "globex")
        for status in ("running", "paused", "completed")
    ]
    (recompiled,) = await recompile(database, repin)
    moving = {row["id"] for row in started if row["status"] != "completed"}
    assert ({move.instance_id for move in repin.moves}, recompiled.moved) == (moving, 4)
    assert {move.old for move in repin.moves} == {
        Pin(org_id, old.id, old.version, old.compiled_hash) for org_id in ("acme", "globex")
    }
    pins = [move.new for move in repin.moves]
    async with database.transaction(None) as connection:
        assert {found.id for found in (await definitions.by_id(connection, pins)).values()} == {
            recompiled.new.id
        }


async def test_archived_version_with_a_running_instance_is_recompiled_and_stays_archived(
    database, definitions, repin
):
    old = await publish_long_ago(database, flow())
    await start(database, old)
    await publish(database, flow(2), "acme")
    (recompiled,) = await recompile(database, repin)
    assert (recompiled.old.id, recompiled.new.status, recompiled.moved) == (old.id, "archived", 1)
    assert await statuses(database, "flow", "hello", "acme") == [
        (1, "archived"),
        (2, "published"),
        (3, "archived"),
    ]
    async with database.transaction("acme") as connection:
        assert (await definitions.for_flow(connection, "acme", "hello")).workflow.version == 2
        assert (await definitions.by_id(connection, [repin.moves[0].new])).popitem()[1].workflow.version == 1


async def test_archived_version_that_nobody_runs_is_left_alone(database, repin):
    old = await publish_long_ago(database, flow())
    await start(database, old, status="cancelled")
    await publish(database, flow(2), "acme")
    assert await recompile(database, repin) == []


async def test_recompiling_twice_is_recompiling_once(database, repin):
    await start(database, await publish_long_ago(database, flow()))
    await recompile(database, repin)
    before = await definition_rows(database)
    assert await recompile(database, repin) == []
    assert (await definition_rows(database), len(repin.moves)) == (before, 1)


async def test_a_run_that_was_cut_off_before_the_instances_moved_is_finished_by_the_next(database, repin):
    await start(database, await publish_long_ago(database, flow()))

    async def dies(moves):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await recompile(database, dies)
    (finished,) = await recompile(database, repin)
    assert (finished.moved, finished.new.version) == (1, 2)
    assert await statuses(database, "flow", "hello", "acme") == [(1, "archived"), (2, "published")]


async def test_instances_stay_and_are_named_where_the_graph_differs(database, repin):
    old = await publish_long_ago(database, flow())
    (row,) = await definition_rows(database)
    content = row["compiled_json"]
    content["nodes"][0]["label"] = "as the older compiler would have it"
    drawn = hashed(Workflow.from_json(content))
    await tamper(database, old.id, compiled_json=drawn.to_json(), compiled_hash=drawn.hash)
    instance = await start(database, old)
    for _ in range(2):
        (recompiled,) = await recompile(database, repin)
        assert (recompiled.same_graph, recompiled.moved) == (False, 0)
        assert recompiled.staying == (("acme", instance["id"]),)
    assert repin.batches == []
    assert await statuses(database, "flow", "hello", "acme") == [(1, "archived"), (2, "published")]


async def test_one_source_with_problems_is_reported_and_holds_no_other_back(database, repin):
    broken = await publish_long_ago(database, flow(key="broken"))
    await publish_long_ago(database, flow(key="sound"))
    await tamper(database, broken.id, source_json={**flow(key="broken"), "start": "nowhere"})
    instance = await start(database, broken)
    first, second = await recompile(database, repin)
    assert (first.new, first.problems[0].path, first.staying) == (
        None,
        ("start",),
        (("acme", instance["id"]),),
    )
    assert (second.old.key, second.new.status) == ("sound", "published")
    assert await statuses(database, "flow", "broken", "acme") == [(1, "published")]


async def test_instances_move_in_batches(database, repin):
    old = await publish_long_ago(database, flow())
    for _ in range(5):
        await start(database, old)
    (recompiled,) = await recompile(database, repin, instances_max=2)
    assert ([len(batch) for batch in repin.batches], recompiled.moved) == ([2, 2, 1], 5)


async def test_what_was_published_to_run_as_the_system_needs_nobodys_capability_again(database, repin):
    await publish_long_ago(database, flow_of_system("system"))
    (recompiled,) = await recompile(database, repin)
    assert recompiled.new.status == "published"


async def test_stale_instances_are_refused_one_by_one(database):
    stale = await publish_long_ago(database, flow())
    fresh = (await publish(database, flow(key="fresh"), "acme")).source
    pins = [Pin("acme", found.id, found.version, found.compiled_hash) for found in (stale, fresh)]
    async with database.transaction("acme") as connection:
        found = await Definitions().by_id(connection, pins)
    assert found[pins[0]].code == "WORKFLOW_COMPILER_STALE"
    assert found[pins[1]].id == fresh.id
