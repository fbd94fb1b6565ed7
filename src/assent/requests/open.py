"""Requests between the engine's decisions and their rows: opened with their step, and closed with it, in sets."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from assent.model.outside_request import EndedStep, OutsideRequest
from assent.store.database import Connection
from assent.store.queries import load_queries

_SQL: Final = load_queries("assent.requests", "requests.sql")

Asked = tuple[OutsideRequest, str | None]
"""A request, and the trace that it is part of."""


async def open_requests(connection: Connection, asked: Sequence[Asked], ended: Sequence[EndedStep]) -> None:
    """Open what steps have asked; then close what is still open of those that ended."""
    if asked:
        await connection.execute(_SQL.open_requests, [_row(request, trace) for request, trace in asked])
    if ended:
        await connection.execute(_SQL.end_requests_of_steps, [_end(step) for step in ended])


def _row(request: OutsideRequest, trace: str | None) -> dict[str, Any]:
    return {field.name: getattr(request, field.name) for field in fields(request)} | {"trace_id": trace}


def _end(step: EndedStep) -> dict[str, Any]:
    return {field.name: getattr(step, field.name) for field in fields(step)}
