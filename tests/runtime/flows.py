"""Flows and people for the runtime's tests, and looking at what became of them."""

from itertools import pairwise
from typing import Any
from uuid import UUID

from assent.definitions import publish_flow
from assent.model.actor import SYSTEM, Actor
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from tests.twin import TWIN

ORG = "acme"
ANN = Actor("ann", roles=frozenset({"clerk"}))
OPS = Actor("ops", capabilities=frozenset({"workflows:*"}))
"""An operator."""
END = {"id": "end", "type": "terminal"}


def script(name: str, **sets: Any) -> dict[str, Any]:
    return {"id": name, "type": "script", "set": sets or {name: "true"}}


def form(name: str, **rest: Any) -> dict[str, Any]:
    return {"id": name, "type": "action", **rest}


def call(name: str, operation: str, **rest: Any) -> dict[str, Any]:
    return {"id": name, "type": "system", "operation": {"sdk": operation}, **rest}


def arrows(*names: str, event: str = "completed") -> list[dict[str, Any]]:
    return [{"from": a, "event": event, "to": b} for a, b in pairwise(names)]


def line(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return arrows(*[step["id"] for step in steps])


async def publish(
    database: Database,
    key: str,
    steps: list[dict[str, Any]],
    transitions: list[dict[str, Any]],
    *,
    org: str = ORG,
    **rest: Any,
) -> None:
    flow = {"flow": key, "version": 1, "start": steps[0]["id"], "steps": steps, "transitions": transitions}
    async with database.transaction(None) as connection:
        await publish_flow(connection, org, {**flow, **rest}, SYSTEM, database.clock.now())


async def rows(database: Database, table: str) -> list[dict[str, Any]]:
    """All rows of a table but the twin org's, which the end of the test looks at."""
    async with database.transaction(None) as connection:
        found = await connection.fetch(f"SELECT * FROM assent.{table}")  # noqa: S608
        return [dict(row) for row in found if row.get("org_id") != TWIN]


async def steps_of(database: Database, instance_id: UUID) -> list[dict[str, Any]]:
    """An instance's steps in the order in which they took effect."""
    steps = [
        row for row in await rows(database, "workflow_step_executions") if row["instance_id"] == instance_id
    ]
    return sorted(steps, key=lambda row: row["output_json"].get("n") or row["output_json"]["entered"])


async def drain(runtime: Runtime, limit: int = 200) -> int:
    """Process events until there are none."""
    total = 0
    processor = EventProcessor(runtime.core)
    while handled := await processor.process_events(limit):
        total += handled
    return total
