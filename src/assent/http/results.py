"""Results in: `/api/requests/…/results` for those who may push them, `/callbacks/…` for those who were given one."""

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request, Response

from assent.effects.callbacks import Callback
from assent.evidence.pushing import Pushed
from assent.evidence.reading import find_request
from assent.http.deliveries import SignedDelivery, check_signature
from assent.http.desk import Desk, House, Session
from assent.http.outside_requests import request_for
from assent.http.problems import documented, documented_alone
from assent.http.reply import Reply
from assent.http.request_shapes import PushedBody
from assent.http.signing import Writing, count_request
from assent.model.bundle import Bundle
from assent.model.mutation import Refused, Rejection
from assent.runtime.event_sources import Delivery
from assent.runtime.rights import PUSH_RESULTS, require_capability
from assent.store.database import Connection

router = APIRouter(tags=["results"])

Push = Annotated[Desk, Depends(Writing("requests:write", "workflows"))]
TokenPath = Annotated[str, Path(max_length=1_000, description="As it was in `Assent-Callback`.")]

SIGNED_KEY: Final = "result:"
"""How the keys begin under which sources sign results; then comes what was asked: `result:kyc.onboarding.screening`."""

ALREADY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": PushedBody, "description": "Its key was taken before, or the request has ended."}
}


@router.post(
    "/api/requests/{request_id}/results",
    status_code=202,
    response_model=PushedBody,
    summary="Hand in results of a request",
    responses=ALREADY | documented(400, 404, 413, 422),
)
async def push_result(desk: Push, request_id: UUID, bundle: Bundle, delivery: SignedDelivery) -> Response:
    """For holders of `results:push`; signed, where a source of `result:<name>` says so. A key does nothing twice."""
    await _require_signature(desk.house, desk.org_id, request_id, delivery)

    async def work(session: Session) -> Reply:
        await request_for(desk, session.connection, request_id)
        actor = desk.caller.actor
        require_capability(actor, PUSH_RESULTS)
        pushed = await session.runtime.push_bundle(desk.org_id, request_id, bundle, "http", actor)
        return _reply(request_id, bundle, pushed)

    return await desk.write(work)


async def called_back(request: Request, token: TokenPath) -> Callback:
    """What a callback is good for. Whoever tries tokens is counted by their address, whoever has one by its request."""
    house: House = request.app.state.house
    if house.callbacks is None:
        raise Refused(Rejection("NOT_FOUND", "this server gives nobody callbacks"))
    found = house.callbacks.read(token, house.database.clock.now())
    place = request.client.host if request.client else ""
    whose = ("", f"place:{place}") if isinstance(found, Rejection) else (found.org_id, str(found.request_id))
    count_request(house, *whose, "workflows")
    if isinstance(found, Rejection):
        raise Refused(found)
    return found


Called = Annotated[Callback, Depends(called_back)]


@router.post(
    "/callbacks/{token}",
    status_code=202,
    response_model=PushedBody,
    summary="Hand in results by a callback",
    responses=ALREADY | documented_alone(400, 401, 403, 404, 413, 422, 429, 503),
)
async def push_result_by_callback(
    request: Request, callback: Called, bundle: Bundle, delivery: SignedDelivery
) -> Response:
    """For whoever was given the address: its token is the right to do this, and to do nothing else."""
    house: House = request.app.state.house
    await _require_signature(house, callback.org_id, callback.request_id, delivery)
    org_id, request_id = callback.org_id, callback.request_id
    pushed = await house.runtime.push_bundle(org_id, request_id, bundle, "callback")
    return _reply(request_id, bundle, pushed).response()


async def _require_signature(house: House, org_id: str, request_id: UUID, delivery: Delivery) -> None:
    """Whoever brings it: results of a request whose source signs are taken only with its signature."""

    async def work(connection: Connection) -> None:
        request = await find_request(connection, org_id, request_id)
        if request is not None:
            await check_signature(house, connection, org_id, f"{SIGNED_KEY}{request.name}", delivery)

    await house.database.run(work, org_id=None)


def _reply(request_id: UUID, bundle: Bundle, pushed: Pushed) -> Reply:
    body = PushedBody(request_id=request_id, key=bundle.key, outcome=pushed)
    return Reply.of(body, 202 if pushed == "accepted" else 200)
