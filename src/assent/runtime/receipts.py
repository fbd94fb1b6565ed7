"""Receipts: whoever is given one may do the step; nobody is given it twice (WF-02, WF-14, WF-16)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from assent.runtime.errors import ReceiptTaken
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

Receipt = tuple[str, UUID, str, UUID, str]
"""Org, instance, key, step and node."""


async def take_receipts(connection: Connection, wanted: Iterable[Receipt], now: datetime) -> None:
    """Take all of them in one statement. One that is taken already stops everything: its step was done before."""
    if not (receipts := list(wanted)):
        return
    orgs, instances, keys, steps, nodes = zip(*receipts, strict=True)
    rows = await connection.fetch(_SQL.take_receipts, orgs, instances, keys, steps, now)
    if len(rows) == len(receipts):
        return
    given = {row["step_execution_id"] for row in rows}
    refused = next(place for place, step in enumerate(steps) if step not in given)
    raise ReceiptTaken(instances[refused], nodes[refused])
