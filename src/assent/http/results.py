"""Results in: `/api/requests/…/results` for those who may push them, `/callbacks/…` for those who were given one."""

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Path, Request, Response
from pydantic import Field

from assent.effects.callbacks import Callback
from assent.http.deliveries import SignatureHeaders, check_signature, delivery_of
from assent.http.desk import RequestContext, Services, Transaction
from assent.http.problems import documented, documented_alone
from assent.http.reply import Reply
from assent.http.request_shapes import PushedBody
from assent.http.routing import Router
from assent.http.showing import request_seen
from assent.http.signing import Writing, count_request
from assent.model.bundle import Bundle
from assent.model.mutation import Refused, Rejection
from assent.requests.push import Pushed
from assent.requests.views import find_request
from assent.runtime.event_sources import require_bound
from assent.runtime.rights import PUSH_RESULTS, require_capability
from assent.store.database import Connection

router = Router(takes_much=True, tags=["results"])

Push = Annotated[RequestContext, Depends(Writing("requests:write", "workflows"))]
TOKEN_LENGTH_MAX: Final = 1_000
TokenPath = Annotated[str, Path(max_length=TOKEN_LENGTH_MAX, description="As it was in `Assent-Callback`.")]

SIGNED_KEY: Final = "result:"
"""How the keys begin under which sources sign results; then comes what was asked: `result:kyc.onboarding.screening`."""


class NewBundle(Bundle):
    request_id: UUID | None = Field(None, examples=["01890a5d-ac96-774b-bcce-b302099a8057"])
    """The request of the path again. Signed results must say it: what is signed for one request is for no other."""

    def bundle(self) -> Bundle:
        return Bundle.model_validate(self.model_dump(exclude={"request_id"}))


ALREADY: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": PushedBody, "description": "Its key was taken before, or the request has ended."}
}


class SignedResults:
    """Results of a request whose source signs are taken only with its signature."""

    async def verify(self, request: Request) -> None:
        request.state.is_signed = False
        try:
            request_id = UUID(request.path_params["request_id"])
        except ValueError:
            return  # the route refuses it by its shape
        caller = request.state.caller
        await _require_signature(request, caller.org_id, request_id, caller.partition_id)

    async def __call__(self) -> None:
        """It is asked by the bytes of the body, before they are parsed."""


@router.post(
    "/api/requests/{request_id}/results",
    status_code=202,
    response_model=PushedBody,
    summary="Hand in results of a request",
    responses=ALREADY | documented(400, 404, 413, 422),
    dependencies=[SignatureHeaders, Depends(SignedResults())],
)
async def push_result(request: Request, desk: Push, request_id: UUID, given: NewBundle) -> Response:
    """For holders of `results:push`; signed, where a source of `result:<name>` says so. A key does nothing twice."""
    bundle = _bound(request, request_id, given)

    async def work(session: Transaction) -> Reply:
        await request_seen(desk, session.connection, request_id)
        actor = desk.caller.actor
        require_capability(actor, PUSH_RESULTS)
        pushed = await session.runtime.org(desk.org_id, actor).requests.push_bundle(
            request_id, bundle, "http"
        )
        return _reply(request_id, bundle, pushed)

    return await desk.write(work)


class CalledBack:
    """What a callback is good for. Tries of tokens are counted by address, calls with a good one by its request."""

    async def admit(self, request: Request) -> None:
        house: Services = request.app.state.house
        if house.callbacks is None:
            raise Refused(Rejection("NOT_FOUND", "this server gives nobody callbacks"))
        token = request.path_params["token"]
        found = house.callbacks.read(token[:TOKEN_LENGTH_MAX], house.database.clock.now())
        if isinstance(found, Rejection):
            place = request.client.host if request.client else ""
            count_request(house, "", f"place:{place}", "workflows")
            raise Refused(found)
        count_request(house, found.org_id, str(found.request_id), "workflows")
        request.state.callback = found

    async def verify(self, request: Request) -> None:
        callback: Callback = request.state.callback
        await _require_signature(request, callback.org_id, callback.request_id)

    async def __call__(self, request: Request, token: TokenPath) -> Callback:
        callback: Callback = request.state.callback
        return callback


Called = Annotated[Callback, Depends(CalledBack())]


@router.post(
    "/callbacks/{token}",
    status_code=202,
    response_model=PushedBody,
    summary="Hand in results by a callback",
    responses=ALREADY | documented_alone(400, 401, 403, 404, 413, 422, 429, 503),
    dependencies=[SignatureHeaders],
)
async def push_result_by_callback(request: Request, callback: Called, given: NewBundle) -> Response:
    """For whoever was given the address: its token is the right to do this, and to do nothing else."""
    house: Services = request.app.state.house
    bundle = _bound(request, callback.request_id, given)
    org_id, request_id = callback.org_id, callback.request_id
    pushed = await house.runtime.org(org_id).requests.push_bundle(request_id, bundle, "callback")
    return _reply(request_id, bundle, pushed).response()


def _bound(request: Request, request_id: UUID, given: NewBundle) -> Bundle:
    """Return what was sent; raises `Refused` where it was signed for another request."""
    if request.state.is_signed:
        require_bound(given.request_id, request_id)
    return given.bundle()


async def _require_signature(
    request: Request, org_id: str, request_id: UUID, partition_id: str | None = None
) -> None:
    """By every way in: results of a request whose source signs are taken only with its signature."""
    house: Services = request.app.state.house
    delivery = await delivery_of(request)
    request.state.is_signed = False

    async def work(connection: Connection) -> None:
        asked = await find_request(connection, org_id, request_id)
        if asked is None or partition_id not in (None, asked.partition_id):
            return  # what the caller cannot see is not asked for a signature
        key = f"{SIGNED_KEY}{asked.name}"
        cause = await check_signature(house, connection, org_id, key, delivery)
        request.state.is_signed = cause is not None

    await house.database.run(work, org_id=None)


def _reply(request_id: UUID, bundle: Bundle, pushed: Pushed) -> Reply:
    body = PushedBody(request_id=request_id, key=bundle.key, outcome=pushed)
    return Reply.of(body, 202 if pushed == "accepted" else 200)
