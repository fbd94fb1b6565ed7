"""Steps are the truth: whatever happens to an instance's row, its steps give it back (WF-15)."""

from assent.runtime import Runtime
from assent.store.database import Database
from tests.world import ANN, ORG, create_order, drain, edit_order, publish_orders, rows


async def test_what_is_kept_is_what_the_steps_make(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    kept, folded = await runtime.org(ORG).operations.fold(view.id)
    assert kept == folded
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="stock")
    await edit_order(runtime, entity.id, total=9)
    await drain(runtime)
    await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    kept, folded = await runtime.org(ORG).operations.fold(view.id)
    assert kept == folded


async def test_a_spoiled_projection_is_rebuilt_and_goes_on(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_instances SET active_tokens = '[]', current_nodes = '{}', context_json = '{}'"
            " WHERE org_id = 'acme'"
        )
    assert await runtime.org(ORG).operations.rebuild(view.id)
    assert not await runtime.org(ORG).operations.rebuild(view.id)
    for step in ("stock", "credit"):
        view = await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=step)
    assert view.status == "completed"


async def test_a_poke_leaves_an_instance_that_rests_as_it_is(runtime: Runtime, database: Database) -> None:
    await publish_orders(database)
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    before = await rows(database, "workflow_instances")
    await runtime.org(ORG).operations.reenqueue(view.id)
    assert await drain(runtime) == 1
    assert await rows(database, "workflow_instances") == before
