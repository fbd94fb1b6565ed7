"""Statements that a batch takes, by its size: workflows of ten automatic steps, and approvals that ask people."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from assent.app import App
from assent.definitions import publish_flow
from assent.model.actor import SYSTEM
from assent.runtime import Runtime
from assent.runtime.event_processor import EventProcessor
from assent.store.database import Database
from bench.ours_steps import FLOW, ORG
from bench.report import BenchReport, Measurement
from bench.server import fresh_database

SIZES = (2, 20, 200)
ASKING: dict[str, Any] = {
    "flow": "bench.asking",
    "version": 1,
    "start": "ask",
    "steps": [
        {"id": "ask", "type": "approval", "assignee": {"role": "approver"}, "notify": "email"},
        {"id": "approved", "type": "terminal"},
        {"id": "rejected", "type": "terminal"},
    ],
    "transitions": [{"from": "ask", "event": end, "to": end} for end in ("approved", "rejected")],
}


async def measure() -> BenchReport:
    async with fresh_database() as database:
        await _prepare(database)
        runtime = App().runtime(database)
        counts = {
            flow["flow"]: [await _least(runtime, flow, size) for size in SIZES] for flow in (FLOW, ASKING)
        }
    return BenchReport(
        "statements",
        "Statements of one batch (COPY besides)",
        [
            Measurement(f"{flow}, {size} instances", "statements", [float(count)])
            for flow, found in counts.items()
            for size, count in zip(SIZES, found, strict=True)
        ],
        {"independent_of_size": all(len(set(found)) == 1 for found in counts.values())},
    )


async def _prepare(database: Database) -> None:
    async with database.transaction(None) as connection:
        for flow in (FLOW, ASKING):
            await publish_flow(connection, ORG, flow, SYSTEM, database.clock.now())
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, roles) VALUES ($1, 'bea', 'Bea', '{approver}')",
            ORG,
        )


async def _least(runtime: Runtime, flow: dict[str, Any], size: int) -> int:
    """Now and then a batch also routes events that arrived without an instance."""
    return min([await _count(runtime, flow, size) for _ in range(3)])


async def _count(runtime: Runtime, flow: dict[str, Any], size: int) -> int:
    """Of a batch of this size, with definitions and plans at hand."""
    await _start(runtime, flow, 1)
    await EventProcessor(runtime.core).process_events(size)
    await _start(runtime, flow, size)
    statements: list[asyncpg.connection.LoggedQuery] = []
    with runtime.database.observe(statements.append):
        handled = await EventProcessor(runtime.core).process_events(size)
    if handled != size:
        raise RuntimeError(f"Expected a batch of {size}, found {handled}")
    return len(statements)


async def _start(runtime: Runtime, flow: dict[str, Any], size: int) -> None:
    inputs: list[Mapping[str, Any]] = [{"number": number} for number in range(size)]
    await runtime.org(ORG, SYSTEM).instances.start_many(flow["flow"], inputs)
