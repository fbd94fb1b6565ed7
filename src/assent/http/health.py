"""Whether the process lives, and whether it can do its work. The only routes without sign-in."""

from functools import cache
from typing import Final

import asyncpg
from fastapi import Request
from pydantic import BaseModel, Field

from assent.http.desk import House
from assent.http.problems import documented_alone
from assent.http.routing import Router
from assent.model.mutation import Refused, Rejection
from assent.store.errors import StoreError
from assent.store.migrate import Migration, load_migrations
from assent.store.queries import load_queries

router = Router(tags=["health"])

_SQL: Final = load_queries("assent.http", "health.sql")


class HealthBody(BaseModel):
    status: str = Field(examples=["ok"])


@router.get("/healthz", response_model=HealthBody, summary="Whether the process lives")
async def healthz() -> HealthBody:
    """The process lives; nothing else is asked."""
    return HealthBody(status="ok")


@router.get(
    "/readyz", response_model=HealthBody, summary="Whether it can be used", responses=documented_alone(503)
)
async def readyz(request: Request) -> HealthBody:
    """The database answers, and its schema is as new as this program."""
    house: House = request.app.state.house
    try:
        async with house.database.transaction(None, read_only=True) as connection:
            version = await connection.fetchval(_SQL.read_schema_version)
    except (OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError):
        raise Refused(Rejection("UNAVAILABLE", "the database does not answer")) from None
    if version != (newest := _newest_migration()).version:
        message = f"expected the schema of {newest}, found version {version}"
        raise Refused(Rejection("UNAVAILABLE", message, hint="run `assent migrate`"))
    return HealthBody(status="ok")


@cache
def _newest_migration() -> Migration:
    return load_migrations()[-1]
