"""What goes wrong and is given up, so that operators have something to look at."""

from uuid import UUID

from assent.effects.settings import SendingSettings
from assent.runtime import Runtime
from assent.store.database import Database
from assent.worker.duty import WorkerContext
from tests.authored import END, arrows
from tests.cli.application import shop
from tests.cli.desk import Desk
from tests.postgres import past_the_guards
from tests.runtime.spoiling import projection, put_back
from tests.workers import LOCAL, EffectsWorker
from tests.world import ANN, ORG, drain, publish_steps, rows


async def given_up(runtime: Runtime, database: Database) -> UUID:
    """An instance whose one event was tried for the last time while the shop was closed."""
    (instance_id,) = await given_up_many(runtime, database, 1)
    return instance_id


async def given_up_many(runtime: Runtime, database: Database, number: int) -> list[UUID]:
    shop.is_open = False
    ids = await runtime.org(ORG, ANN).instances.start_many("confirmation", [{}] * number)
    async with database.transaction(None) as connection:
        await connection.execute(
            "UPDATE assent.workflow_events_outbox SET attempts_max = 1 WHERE org_id = 'acme' AND status = 'pending'"
        )
    await drain(runtime)
    assert {row["status"] for row in await rows(database, "workflow_instances") if row["id"] in ids} == {
        "paused"
    }
    return ids


async def unsendable(runtime: Runtime, database: Database, *, awaited: bool = False) -> UUID:
    """An instance with an effect that a worker has given up, because it goes to no address."""
    tell = {"id": "tell", "type": "webhook_out", "url": "{workflow.url}", "body": {"a": "1"}}
    key = "awaiting" if awaited else "telling"
    await publish_steps(
        database, key, [{**tell, **({"await": True} if awaited else {})}, END], arrows("tell", "end")
    )
    view = await runtime.org(ORG, ANN).instances.start(key, {"url": "http://[::1"})
    effects_worker = EffectsWorker(WorkerContext(database, runtime=runtime, sending=SendingSettings(LOCAL)))
    try:
        await effects_worker.work()
    finally:
        await effects_worker.close()
    return view.id


async def stuck(desk: Desk, database: Database) -> UUID:
    """An instance that has ended by its steps, while its row says that it runs, since an hour ago."""
    started = await desk.json("instances", "start", "orders")
    instance_id = UUID(started["id"])
    before = await projection(database, instance_id)
    await desk.run("instances", "advance", instance_id, "go")
    async with past_the_guards(database.url) as connection:
        await connection.execute(
            "UPDATE assent.workflow_instances SET status = 'running', completed_at = NULL,"
            " updated_at = updated_at - interval '1 hour' WHERE org_id = 'acme' AND id = $1",
            instance_id,
        )
    await put_back(database, instance_id, before)
    return instance_id
