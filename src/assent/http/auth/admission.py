"""Admission: sign-in, scope and rate of a request, by its head alone, before its body is read."""

from typing import Annotated, Final
from urllib.parse import unquote

from fastapi import Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from assent.http.auth.cookies import credentials_of, is_by_cookie, require_own_page
from assent.http.context import RequestContext, Services, services_of
from assent.http.fields import NAME_LENGTH_MAX
from assent.http.problems import RefusedByHttp
from assent.http.refusals import count_refusal, note_sign_in
from assent.http.replies import KEY_LENGTH_MAX
from assent.http.settings import RateClass
from assent.model.mutation import Refused, Rejection
from assent.people.api_keys import Scope

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="bearer",
    description="A JSON Web Token of your identity provider, or an API key of `assent keys create`.",
)

_WITHOUT_CHALLENGE: Final = ("NOT_A_MEMBER", "SESSION_REFUSED")

Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]

RepeatKeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_LENGTH_MAX,
        pattern=r"^[!-~]+$",
        description="The same key with the same request returns the same reply, and the command runs once.",
        examples=["5f1c1d0e-order-17"],
    ),
]

ReasonHeader = Annotated[
    str | None,
    Header(
        alias="Assent-Reason",
        max_length=NAME_LENGTH_MAX,
        pattern=r"^[ -~]*$",
        description="The reason for the audit log; percent-encoded if it is not ASCII. A reason in the body wins.",
        examples=["ticket 4711"],
    ),
]


async def context_of_query(request: Request, credentials: Credentials) -> RequestContext:
    """Return the context of a request that changes nothing."""
    return RequestContext(services_of(request), request.state.caller, request)


async def context_of_command(
    request: Request,
    credentials: Credentials,
    idempotency_key: RepeatKeyHeader = None,
    reason: ReasonHeader = None,
) -> RequestContext:
    """Return the context of a request that changes something."""
    condition = request.headers.get("if-match")
    services, caller = services_of(request), request.state.caller
    return RequestContext(services, caller, request, idempotency_key, condition, _decoded(reason))


def _decoded(reason: str | None) -> str | None:
    """Return a reason without what the database cannot store: no request is refused for its reason."""
    text = unquote(reason or "", errors="replace").replace("\x00", "").strip()
    return text or None


async def admit_caller(request: Request, scope: Scope, rate: RateClass) -> None:
    """Sign the caller in and count the request; raise `Refused` if the credentials, the scope or the rate forbid it."""
    services = services_of(request)
    place = request.client.host if request.client else None
    authorization = request.headers.get("authorization")
    if authorization is None and is_by_cookie(request):
        require_own_page(request)
        authorization = credentials_of(request)
    if wait_s := services.sign_in_throttle.wait_s(place, authorization):
        count_refusal("rate", "sign_ins")
        raise services.rates.refusal("sign_ins", wait_s)
    caller = await services.sign_in.caller(authorization, place)
    if isinstance(caller, Rejection):
        services.sign_in_throttle.refused(place, authorization, caller)
        note_sign_in(request, caller, place)
        challenge = {"www-authenticate": f'Bearer realm="assent", error="{caller.code.lower()}"'}
        raise RefusedByHttp(caller, **(challenge if caller.code not in _WITHOUT_CHALLENGE else {}))
    services.sign_in_throttle.passed(authorization)
    request.state.caller = caller
    if (refused := caller.may_use(scope)) is not None:
        raise Refused(refused)
    count_request(services, caller.org_id, caller.key, rate)


def count_request(services: Services, org_id: str, key: str, rate: RateClass) -> None:
    """Count a request under a key; raise `Refused` if it is beyond the rate."""
    if wait_s := services.rates.wait_s(org_id, key, rate):
        count_refusal("rate", rate)
        raise services.rates.refusal(rate, wait_s)
