"""Sessions of browsers: how people may sign in; begin, read, renew and end one. `/api/session`

The token is in a cookie that no script reads, and in no body. It begins with an API key, or by choice in the demo.
"""

from datetime import datetime, timedelta
from uuid import UUID

from fastapi import Request, Response
from pydantic import Field

from assent.bodies.body import ResponseModel
from assent.http.auth.callers import Caller
from assent.http.auth.cookies import cookie_removed, cookie_with, require_own_page, session_token
from assent.http.context import Services, Transaction, services_of
from assent.http.fields import RequestModel, ShortText
from assent.http.links import place_of
from assent.http.problems import shown_once
from assent.http.refusals import count_refusal, note_sign_in
from assent.http.replies import Reply, reply_with
from assent.http.routing import Admission, Router
from assent.http.settings import HttpSettings
from assent.kernel.entities import read_actor
from assent.model.actor import Actor, By, Origin
from assent.model.mutation import Refused, Rejection
from assent.people.members import KeptMember, read_member
from assent.people.orgs import LANGUAGE_SETTING, read_org
from assent.people.preferences import read_preferences
from assent.people.sessions import NewSession, SessionTerms, begin_session, renew_session, revoke_session
from assent.store.database import Connection

router = Router(prefix="/api/session", tags=["sessions"])


class SignInPerson(ResponseModel):
    """A person that the demo offers."""

    user_id: str = Field(examples=["fin"])
    name: str = Field(examples=["Finley, finance"])


class SignInBody(ResponseModel):
    """How people may sign in here."""

    people: list[SignInPerson] = Field(description="Only in the demo: people to choose from.")


class NewSessionBody(RequestModel):
    """One of the two."""

    key: ShortText | None = Field(None, description="An API key.", examples=["ak_Zx81aQ_p…"])
    user: ShortText | None = Field(None, description="Only in the demo: one of its people.")


class SessionBody(ResponseModel):
    """The caller: who they are and what they may do."""

    org_id: str = Field(examples=["acme"])
    org_name: str = Field(examples=["Acme Ltd"])
    user_id: str = Field(examples=["fin"])
    name: str = Field(examples=["Finley"])
    roles: list[str] = Field(examples=[["finance_manager"]])
    capabilities: list[str] = Field(examples=[["invoice:read"]])
    scopes: list[str] = Field(description="Those of the API key; `*` for all.", examples=[["*"]])
    partition_id: str | None = Field(description="The one partition of the org that they see; null for all.")
    language: str | None = Field(description="That of the member, or of the org.", examples=["de"])
    session_id: UUID | None = Field(description="Null for a caller with a key or a token.")
    expires_at: datetime | None = Field(description="When the session, the key or the token expires.")


async def _admit(request: Request) -> None:
    """Refuse sign-ins from other pages, and those beyond the rate of failed ones, before the body is read."""
    require_own_page(request)
    services = services_of(request)
    if wait_s := services.sign_in_throttle.wait_s(place_of(request), None):
        count_refusal("rate", "sign_ins")
        raise services.rates.refusal("sign_ins", wait_s)


@router.unsigned("/ways", method="GET", response_model=SignInBody, summary="How people may sign in")
async def show_sign_in(request: Request) -> SignInBody:
    """With an API key; the demo offers its people as well."""
    return SignInBody(people=[SignInPerson.of(person) for person in services_of(request).demo_people])


@router.unsigned(
    "",
    admission=Admission(_admit, refuses_unknown=True),
    errors=(400, 401, 403, 413, 422, 429, 503),
    responses={201: {"model": SignInPerson}},
    status_code=201,
    summary="Begin a session",
)
async def create_session(request: Request, body: NewSessionBody) -> Response:
    """With an API key. The reply sets the cookie of the session, which has the scopes and the partition of the key."""
    services, place = services_of(request), place_of(request)
    found = await _member_of(services, body, place)
    if isinstance(found, Rejection):
        services.sign_in_throttle.refused(place, None, found)
        note_sign_in(request, found, place)
        raise Refused(found)
    org_id, actor, key_id = found
    now, terms = services.database.clock.now(), terms_of(services.settings)

    async def begin(connection: Connection) -> tuple[NewSession, KeptMember]:
        new = await begin_session(connection, org_id, actor.id, now, terms, key_id=key_id)
        return new, await read_member(connection, org_id, actor.id)

    by = By(actor, Origin("http", place, None))
    new, member = await services.database.run(begin, org_id=org_id, plans="kept", by=by)
    cookie = cookie_with(request, new.token, new.expires_at, now)
    return reply_with(SignInPerson.of(member), 201, headers={"set-cookie": cookie}).response()


async def _member_of(
    services: Services, body: NewSessionBody, place: str | None
) -> tuple[str, Actor, UUID | None] | Rejection:
    """Return the org, the member and the key of a sign-in, or why it is refused."""
    if body.key is not None and body.user is None:
        caller = await services.sign_in.caller(f"Bearer {body.key}", place)
        if isinstance(caller, Caller) and caller.key_id is not None:
            return caller.org_id, caller.actor, caller.key_id
        return (
            caller if isinstance(caller, Rejection) else Rejection("API_KEY_REFUSED", "expected an API key")
        )
    chosen = next((each for each in services.demo_people if each.user_id == body.user), None)
    if body.key is not None or chosen is None:
        return Rejection("NOT_SIGNED_IN", "expected an API key in `key`")
    async with services.database.transaction(chosen.org_id, read_only=True) as connection:
        actor = await read_actor(connection, chosen.org_id, chosen.user_id)
    refused = Rejection("NOT_A_MEMBER", f"{chosen.user_id} is no active member of {chosen.org_id}")
    return (chosen.org_id, actor, None) if actor is not None else refused


def terms_of(settings: HttpSettings) -> SessionTerms:
    """Return how long sessions of a server last."""
    return SessionTerms(
        timedelta(minutes=settings.session_idle_minutes), timedelta(hours=settings.session_hours_max)
    )


@router.query("", scope="members:read", summary="Read who the caller is, and what they may do")
async def show_session(tx: Transaction) -> SessionBody:
    """For every caller, also with a key or a token."""
    return await _body_of(tx)


async def _body_of(tx: Transaction, expires_at: datetime | None = None) -> SessionBody:
    caller, org = tx.caller, await read_org(tx.connection, tx.org_id)
    preferences = await read_preferences(tx.connection, tx.org_id, tx.actor.id)
    language = preferences.language or org.settings.get(LANGUAGE_SETTING)
    return SessionBody(
        org_id=tx.org_id,
        org_name=org.name,
        user_id=tx.actor.id,
        name=await _name_of(tx),
        roles=sorted(tx.actor.roles),
        capabilities=sorted(tx.actor.capabilities),
        scopes=sorted(caller.scopes),
        partition_id=caller.partition_id,
        language=language if isinstance(language, str) else None,
        session_id=caller.session_id,
        expires_at=expires_at or caller.expires_at,
    )


async def _name_of(tx: Transaction) -> str:
    """Return the name of the caller; the id of one that only the identity provider knows."""
    try:
        return (await read_member(tx.connection, tx.org_id, tx.actor.id)).name
    except Refused:
        return tx.actor.id


@router.command("/renew", scope="members:read", rate="entities", errors=(404,), summary="Renew the session")
async def renew_session_of_caller(tx: Transaction) -> Reply[SessionBody]:
    """Under a new token, in the cookie; the former one is valid for another minute."""
    session_id, token = _session_of(tx)
    new = await renew_session(
        tx.connection, tx.org_id, session_id, token, tx.now(), terms_of(tx.services.settings)
    )
    if new is None:
        return reply_with(await _body_of(tx))
    cookie = cookie_with(tx.request, new.token, new.expires_at, tx.now())
    reply = reply_with(await _body_of(tx, new.expires_at), headers={"set-cookie": cookie})
    message = "the session was renewed under this `Idempotency-Key`"
    return shown_once(reply, tx.request.url.path, message)


@router.command(
    "", method="DELETE", scope="members:read", rate="entities", errors=(404,), summary="End the session"
)
async def end_session(tx: Transaction) -> Reply[SessionBody]:
    """The caller signs out; the cookie is removed, and its token is valid no more."""
    session_id, _ = _session_of(tx)
    body = await _body_of(tx)
    await revoke_session(tx.connection, tx.org_id, session_id, tx.now())
    return reply_with(body, headers={"set-cookie": cookie_removed(tx.request)})


def _session_of(tx: Transaction) -> tuple[UUID, str]:
    """Return the session that signs the request in, with its token; raise `Refused` where a key or token does."""
    token = session_token(tx.request)
    if tx.caller.session_id is None or token is None:
        raise Refused(Rejection("NOT_FOUND", "the request was not signed in by a session"))
    return tx.caller.session_id, token
