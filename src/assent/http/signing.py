"""What every route but health begins with: who calls, whether the key may be used for this, and how often.

`Reading("workflows:read")` and `Writing("workflows:write", "workflows")` are dependencies that give a desk. Who calls
is asked when the route admits a request, before its body is read (see routing.py); the desk is made after that.
"""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from assent.http.desk import RequestContext, Services
from assent.http.problems import RefusedByHttp
from assent.http.refusals import count_refusal, note_sign_in
from assent.http.replies import KEY_LENGTH_MAX
from assent.http.scopes import Scope
from assent.http.settings import RateClass
from assent.http.texts import NAME_LENGTH_MAX
from assent.model.mutation import Refused, Rejection

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="bearer",
    description="A JSON Web Token of your identity provider, or an API key of `assent keys create`.",
)

Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]

RepeatKeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_LENGTH_MAX,
        pattern=r"^[!-~]+$",
        description="The same key with the same request gives the same answer again, and does nothing twice.",
        examples=["5f1c1d0e-order-17"],
    ),
]

ReasonHeader = Annotated[
    str | None,
    Header(
        alias="Assent-Reason",
        max_length=NAME_LENGTH_MAX,
        pattern=r"^[ -~]*$",
        description="Why, for the audit log; percent-encoded where it is not ASCII. A reason in the body goes first.",
        examples=["ticket 4711"],
    ),
]


@dataclass(frozen=True)
class Reading:
    """Somebody wants to see something."""

    scope: Scope
    rate: RateClass = "reads"

    async def admit(self, request: Request) -> None:
        await _sign_in(request, self.scope, self.rate)

    async def __call__(self, request: Request, credentials: Credentials) -> RequestContext:
        return RequestContext(_house(request), request.state.caller, request)


@dataclass(frozen=True)
class Writing:
    """Somebody wants to change something."""

    scope: Scope
    rate: RateClass

    async def admit(self, request: Request) -> None:
        await _sign_in(request, self.scope, self.rate)

    async def __call__(
        self,
        request: Request,
        credentials: Credentials,
        idempotency_key: RepeatKeyHeader = None,
        reason: ReasonHeader = None,
    ) -> RequestContext:
        condition = request.headers.get("if-match")
        caller = request.state.caller
        return RequestContext(_house(request), caller, request, idempotency_key, condition, _reason(reason))


def _reason(given: str | None) -> str | None:
    """What the database cannot keep is left out: a reason is nothing to be refused for."""
    text = unquote(given or "", errors="replace").replace("\x00", "").strip()
    return text or None


def _house(request: Request) -> Services:
    house: Any = request.app.state.house
    return house  # type: ignore[no-any-return]


async def _sign_in(request: Request, scope: Scope, rate: RateClass) -> None:
    """Leave in the request who calls; raises `Refused` where they may not."""
    house = _house(request)
    place = request.client.host if request.client else None
    authorization = request.headers.get("authorization")
    if wait_s := house.entrance.wait_s(place, authorization):
        count_refusal("rate", "sign_ins")
        raise house.rates.refusal("sign_ins", wait_s)
    caller = await house.sign_in.caller(authorization, place)
    if isinstance(caller, Rejection):
        house.entrance.refused(place, authorization, caller)
        note_sign_in(request, caller, place)
        challenge = {"www-authenticate": f'Bearer realm="assent", error="{caller.code.lower()}"'}
        raise RefusedByHttp(caller, **(challenge if caller.code != "NOT_A_MEMBER" else {}))
    house.entrance.passed(authorization)
    request.state.caller = caller
    if (refused := caller.may_use(scope)) is not None:
        raise Refused(refused)
    count_request(house, caller.org_id, caller.key, rate)


def count_request(house: Services, org_id: str, key: str, rate: RateClass) -> None:
    """One more of whoever has this key; refuses what is too many."""
    if wait_s := house.rates.wait_s(org_id, key, rate):
        count_refusal("rate", rate)
        raise house.rates.refusal(rate, wait_s)
