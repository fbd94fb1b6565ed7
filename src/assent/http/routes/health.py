"""Health of the process, and metrics. `/healthz`, `/readyz`, `/metrics`

Health needs no sign-in. Metrics count for all orgs, so they are off unless the settings name their readers.
"""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from assent.http.auth.admission import Credentials, admit_caller
from assent.http.context import services_of
from assent.http.problems import documented
from assent.http.routing import Admission, Router
from assent.model.mutation import Refused, Rejection
from assent.runtime.rights import require_capability
from assent.store.errors import StoreError
from assent.store.migrate import read_schema_version, schema_mismatch

router = Router(tags=["health"])

READ_METRICS: Final = "operations:metrics"
_METRICS: dict[str, Any] = {
    "description": "In the text format of Prometheus.",
    "content": {"text/plain": {"example": 'assent_pending{queue="events"} 3\n'}},
}


class HealthBody(BaseModel):
    status: str = Field(examples=["ok"])


@router.unsigned(
    "/healthz",
    method="GET",
    errors=(503,),
    response_model=HealthBody,
    summary="Whether the process is alive",
)
async def healthz(request: Request) -> HealthBody:
    """The process runs; each duty of a worker in the same process has finished a round in time."""
    overdue: Sequence[str] = getattr(request.app.state, "overdue_duties", tuple)()
    if overdue:
        message = f"not finished a round in time: {', '.join(overdue)}"
        raise Refused(Rejection("UNAVAILABLE", message, hint="restart the process if this continues"))
    return HealthBody(status="ok")


@router.unsigned(
    "/readyz",
    method="GET",
    errors=(503,),
    response_model=HealthBody,
    summary="Whether the process is ready",
)
async def readyz(request: Request) -> HealthBody:
    """The database responds, and this program can use its schema."""
    database = services_of(request).database
    try:
        async with database.transaction(None, read_only=True) as connection:
            schema = await read_schema_version(connection)
    except (OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError):
        raise Refused(Rejection("UNAVAILABLE", "the database does not respond")) from None
    if (mismatch := schema_mismatch(schema)) is not None:
        raise Refused(Rejection("UNAVAILABLE", mismatch.problem, hint=mismatch.remedy))
    return HealthBody(status="ok")


async def admit_metrics(request: Request) -> None:
    """Raise `Refused` unless the settings let the caller read the metrics."""
    setting = services_of(request).settings.metrics
    if setting == "off":
        hint = "ASSENT_HTTP_METRICS names the readers of metrics"
        raise Refused(Rejection("NO_SUCH_ROUTE", "this server shows no metrics", hint=hint))
    if setting == "operators":
        await admit_caller(request, "operations:read", "reads")
        caller = request.state.caller
        if caller.partition_id is not None:
            raise Refused(Rejection("NO_SUCH_ROUTE", "metrics are of all orgs, and of no partition"))
        require_capability(caller.actor, READ_METRICS)


@router.unsigned(
    "/metrics",
    method="GET",
    admission=Admission(admit_metrics),
    responses={200: _METRICS, **documented(404)},
    response_class=PlainTextResponse,
    summary="Read metrics",
)
async def show_metrics(request: Request, credentials: Credentials) -> Response:
    """The counters of this process, and the queues of all orgs."""
    body, media_type = await services_of(request).metrics.render()
    return Response(body, media_type=media_type)
