"""Orders of which somebody is told when they become large, and an operation that says what it knows.

`app` is also for `assent worker --app tests.telemetry.application:app`.
"""

import logging
from collections.abc import Mapping
from typing import Any

from assent.app import App
from assent.kernel.rules import save_rule
from assent.model.mutation import Command, Entity
from assent.runtime import Runtime
from assent.store.connection import Connection
from assent.store.database import Database
from tests.authored import END, arrows
from tests.world import ANN, ORDER, ORG, create_order, drain, publish_orders, publish_steps

app = App([ORDER])
_log = logging.getLogger("assent.tests.operation")


@app.operation("tests.log")
def log(_: Connection, arguments: Mapping[str, Any]) -> None:
    _log.warning("an operation runs", extra={"what": arguments.get("what")})
    if arguments.get("fails"):
        raise RuntimeError("the words of an error may hold what ann@example.org wrote")


LARGE = {
    "name": "large",
    "entity_type": "order",
    "action": "update",
    "timing": "after",
    "condition": "entity.total > 800",
    "outcome": "emit",
    "then": {"key": "large:{entity.number}", "payload": {}},
}


async def order_that_is_watched(runtime: Runtime, url: str) -> Entity:
    """An order, and a flow that tells `url` when it has become large."""
    database = runtime.database
    await publish_orders(database, None)
    async with database.transaction(ORG) as connection:
        await save_rule(connection, app.registry, ORG, LARGE, database.clock.now())
    wait = {"id": "wait", "type": "wait", "key": "large:1"}
    tell = {"id": "tell", "type": "webhook_out", "url": url, "body": {"order": "1"}}
    await publish_steps(database, "telling", [wait, tell, END], arrows("wait", "tell", "end"))
    entity = await create_order(runtime)
    await runtime.org(ORG, ANN).instances.start("telling")
    await drain(runtime)
    return entity


async def enlarge(runtime: Runtime, entity: Entity, trace: str | None = None) -> None:
    """One edit: the mutation whose event makes a worker tell somebody."""
    await runtime.core.kernel.mutate(
        Command(ORG, "order.update", ANN, {"total": 900}, entity.id, trace_id=trace)
    )


async def traces_in(database: Database, table: str) -> list[str | None]:
    async with database.transaction(None) as connection:
        found = await connection.fetch(f"SELECT trace_id FROM assent.{table} WHERE org_id = 'acme'")  # noqa: S608
    return [row["trace_id"] for row in found]
