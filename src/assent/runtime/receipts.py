"""Receipts: the row whose insertion permits a step. No receipt is given twice (WF-02, WF-14, WF-16)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from assent.engine.visit import Visit
from assent.runtime.batch import Execution
from assent.runtime.errors import ReceiptTaken
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

Receipt = tuple[str, UUID, str, UUID, str]
"""Org, instance, key, step and node."""

TAKEN_BEFORE: Final = "AS014"
_COLUMNS: Final = ("org_id", "instance_id", "idempotency_key", "step_id", "created_at")


def receipts_of_steps(job: Execution) -> list[Receipt]:
    """Return the receipts of the job's new steps that were not taken yet; the caller takes them."""
    steps = job.run.steps[job.steps_receipted :]
    job.steps_receipted += len(steps)
    return [
        (step.org_id, step.instance_id, step.key, step.id, step.node_id)
        for step in steps
        if step.is_new and not step.receipted
    ]


def receipt_of_visit(visit: Visit) -> Receipt:
    """Return the receipt of a step that is about to reach outside of the engine; the caller takes it."""
    visit.receipted = True
    return visit.instance.org_id, visit.instance.id, visit.key, visit.step_id, visit.node.id


async def take_receipts(
    connection: Connection, receipts: Sequence[Receipt], now: datetime, *, copies: bool
) -> None:
    """Take all of them in one statement; raise ReceiptTaken if one was taken before: its step was done."""
    if not receipts:
        return
    if copies:
        await _copy_receipts(connection, receipts, now)
    else:
        await _insert_receipts(connection, receipts, now)


async def _copy_receipts(connection: Connection, receipts: Sequence[Receipt], now: datetime) -> None:
    # INSERT … ON CONFLICT looks every key up before it inserts it: 4 µs a step more on the server, and 3 in Python.
    try:
        await connection.copy_records_to_table(
            "workflow_step_receipts",
            schema_name="assent",
            columns=_COLUMNS,
            records=((org, instance, key, step, now) for org, instance, key, step, _ in receipts),
        )
    except asyncpg.UniqueViolationError as error:
        taken = next((one for one in receipts if one[2] in (error.detail or "")), receipts[0])
        raise ReceiptTaken(taken[1], taken[4]) from error


async def _insert_receipts(connection: Connection, receipts: Sequence[Receipt], now: datetime) -> None:
    """For the engine's role, which may not COPY under row security."""
    orgs, instances, keys, steps, _ = zip(*receipts, strict=True)
    where = {str(step): (instance, node) for _, instance, _, step, node in receipts}

    def explain(error: asyncpg.PostgresError) -> Exception | None:
        step = where.get(error.detail or "") if error.sqlstate == TAKEN_BEFORE else None
        return ReceiptTaken(*step) if step is not None else None

    await put(connection, _SQL.take_receipts, orgs, instances, keys, steps, now, explain=explain)
