"""The page for Prometheus. It counts for all orgs together, so it is off unless the settings say who may read it."""

from typing import Annotated, Any, Final

from fastapi import Depends, Request, Response
from fastapi.responses import PlainTextResponse

from assent.http.desk import Services
from assent.http.problems import documented
from assent.http.routing import Router
from assent.http.signing import Credentials, Reading
from assent.model.mutation import Refused, Rejection
from assent.runtime.rights import require_capability

router = Router(tags=["health"])

READ_METRICS: Final = "operations:metrics"
_PAGE: dict[str, Any] = {
    "description": "In the text format of Prometheus.",
    "content": {"text/plain": {"example": 'assent_pending{queue="events"} 3\n'}},
}


async def readable(request: Request, credentials: Credentials) -> Services:
    """The house, for whoever may read its numbers."""
    house: Services = request.app.state.house
    if house.settings.metrics == "off":
        hint = "ASSENT_HTTP_METRICS says who may read them"
        raise Refused(Rejection("NO_SUCH_ROUTE", "metrics are not shown here", hint=hint))
    if house.settings.metrics == "operators":
        reading = Reading("operations:read")
        await reading.admit(request)
        desk = await reading(request, credentials)
        if desk.caller.partition_id is not None:
            raise Refused(Rejection("NO_SUCH_ROUTE", "metrics are of all orgs, and of no partition"))
        require_capability(desk.caller.actor, READ_METRICS)
    return house


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    summary="Read metrics",
    responses={200: _PAGE, **documented(404)},
)
async def show_metrics(house: Annotated[Services, Depends(readable)]) -> Response:
    """What this process counted, and how the queues of all orgs stand."""
    body, media_type = await house.metrics.render()
    return Response(body, media_type=media_type)
