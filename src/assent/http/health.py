"""Whether the process lives, and whether it can do its work. The only routes without sign-in."""

from collections.abc import Sequence

import asyncpg
from fastapi import Request
from pydantic import BaseModel, Field

from assent.http.desk import Services
from assent.http.problems import documented_alone
from assent.http.routing import Router
from assent.model.mutation import Refused, Rejection
from assent.store.errors import StoreError
from assent.store.migrate import read_schema_version, schema_mismatch

router = Router(tags=["health"])


class HealthBody(BaseModel):
    status: str = Field(examples=["ok"])


@router.get(
    "/healthz",
    response_model=HealthBody,
    summary="Whether the process lives",
    responses=documented_alone(503),
)
async def healthz(request: Request) -> HealthBody:
    """The process lives; and of a worker in the same process, every duty has finished a round in its time."""
    overdue: Sequence[str] = getattr(request.app.state, "overdue_duties", tuple)()
    if overdue:
        message = f"not finished a round in time: {', '.join(overdue)}"
        raise Refused(Rejection("UNAVAILABLE", message, hint="restart the process if this goes on"))
    return HealthBody(status="ok")


@router.get(
    "/readyz", response_model=HealthBody, summary="Whether it can be used", responses=documented_alone(503)
)
async def readyz(request: Request) -> HealthBody:
    """The database answers, and this program can use its schema."""
    house: Services = request.app.state.house
    try:
        async with house.database.transaction(None, read_only=True) as connection:
            schema = await read_schema_version(connection)
    except (OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError):
        raise Refused(Rejection("UNAVAILABLE", "the database does not answer")) from None
    if (mismatch := schema_mismatch(schema)) is not None:
        raise Refused(Rejection("UNAVAILABLE", mismatch.problem, hint=mismatch.remedy))
    return HealthBody(status="ok")
