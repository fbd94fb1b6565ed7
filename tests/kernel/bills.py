"""Bills: a type whose fields are all indexed, what lists of them show, and the worker that builds their indexes."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from assent.compiler.source import Source
from assent.definitions.publish import publish_sources
from assent.kernel.indexes import build_indexes
from assent.model.actor import SYSTEM
from assent.model.entity_filter import EntityFilter, filter_from
from assent.model.mutation import Entity
from assent.runtime import Runtime
from assent.store.database import Database
from tests.world import ANN, ORG

BILL: Final[dict[str, Any]] = {
    "contract": "bill",
    "version": 1,
    "workflow": "none",
    "fields": {
        "number": {"type": "text", "index": True, "search": True},
        "total": {"type": "money", "index": True},
        "rate": {"type": "decimal", "index": True},
        "day": {"type": "date", "index": True},
        "at": {"type": "datetime", "index": True},
        "paid": {"type": "boolean", "index": True},
        "currency": {"type": "enum", "values": ["CHF", "EUR", "USD"], "index": True},
        "vendor": {"type": "reference", "to": "vendor", "index": True},
        "note": {"type": "text", "search": True},
        "memo": {"type": "text"},
    },
    "lifecycle": {
        "initial": "open",
        "states": {"open": {"edit": "editable"}, "closed": {"edit": "locked"}},
        "transitions": {"close": {"from": "open", "to": "closed"}},
    },
}


async def publish_bill(database: Database, **changes: Any) -> None:
    """Publish the contract of bills, with these changes, as the owner."""
    source = Source("bill.yaml", {**BILL, **changes})
    async with database.transaction(None) as connection:
        await publish_sources(connection, "*", [source], SYSTEM, database.clock.now())


async def build(database: Database, entities_max: int = 1_000, wait_s: float = 30) -> int:
    """Build indexes until all are ready, and return how many entities were indexed.

    A build begins when all older transactions have ended, those of other databases of the server included.
    """
    indexed, end = 0, time.monotonic() + wait_s
    while not await _is_built(database):
        assert time.monotonic() < end, "the indexes were not built"
        batch = await build_indexes(database, entities_max)
        indexed += batch.indexed
        if not batch.more:
            await asyncio.sleep(0.01)
    return indexed


async def _is_built(database: Database) -> bool:
    async with database.transaction(None) as connection:
        return bool(
            await connection.fetchval("SELECT coalesce(bool_and(built), true) FROM assent.entity_indexes")
        )


async def create_bill(runtime: Runtime, org: str = ORG, id: UUID | None = None, **data: Any) -> Entity:
    return (await runtime.org(org, SYSTEM).entities.mutate("bill.create", data, id)).entity


async def listed(runtime: Runtime, org: str = ORG, limit: int = 50, **filter: Any) -> list[Entity]:
    """Return all entities that fit a filter, read page by page."""
    return await all_of(runtime, filter_from(filter), org, limit)


async def all_of(runtime: Runtime, wanted: EntityFilter, org: str = ORG, limit: int = 50) -> list[Entity]:
    found: list[Entity] = []
    cursor: str | None = None
    while True:
        page = await runtime.org(org, ANN).entities.list("bill", wanted, cursor=cursor, limit=limit)
        found += page.items
        if page.next is None:
            return found
        assert page.next != cursor
        cursor = page.next


def column(entities: Sequence[Entity], name: str) -> list[Any]:
    return [entity.data.get(name) for entity in entities]


Data = Mapping[str, Any]
