"""People who call: each with a token of their own, on a client that talks to the application in this process."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import jwt
from fastapi import FastAPI

from assent.effects.callbacks import Callbacks
from assent.effects.settings import CallbackSettings
from assent.http.settings import HttpSettings
from tests.postgres import START
from tests.twin import assert_unseen

SECRET = "a secret of tests, longer than thirty-two bytes"
ISSUER = "https://id.example.com"
AUDIENCE = "assent"
PLACE = "203.0.113.7"
CALLBACKS = CallbackSettings(url="https://assent.example.com", key="a key of callbacks, longer than 32 bytes")
SETTINGS = HttpSettings(jwt_key=SECRET, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)


def claims(now: datetime, user: str, org: str = "acme", **more: Any) -> dict[str, Any]:
    found = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user,
        "org_id": org,
        "exp": now + timedelta(hours=1),
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


def token(now: datetime, user: str, org: str = "acme", **more: Any) -> str:
    return jwt.encode(claims(now, user, org, **more), SECRET, algorithm="HS256")


def token_of(request_id: UUID, org: str = "acme", at: datetime = START) -> str:
    """A token as it stands in `Assent-Callback`."""
    return Callbacks(CALLBACKS).token(org, request_id, at)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def client_of(door: FastAPI, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
    """Whatever the application raises is raised here: a test never overlooks a 500."""
    transport = httpx.ASGITransport(door, client=(PLACE, 4711))
    hooks = {"response": [_check_for_the_twin]}
    return httpx.AsyncClient(
        transport=transport, base_url="http://assent", headers=headers, event_hooks=hooks
    )


async def _check_for_the_twin(response: httpx.Response) -> None:
    """Nothing of the twin org is in any answer; streams are read by those who ask for them."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        await response.aread()
        assert_unseen(response.text)


class People:
    """Clients by who uses them."""

    def __init__(self, door: FastAPI, now: datetime) -> None:
        self._door = door
        self._now = now

    def __call__(self, user: str, org: str = "acme", **more: Any) -> httpx.AsyncClient:
        return client_of(self._door, bearer(token(self._now, user, org, **more)))


async def ask(
    people: People, user: str, method: str, path: str, body: Any = None, **claims: Any
) -> httpx.Response:
    """Send one request of a user; `claims` are those of the token."""
    async with people(user, **claims) as client:
        return await client.request(method, path, json=body)


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem in an answer that must be one."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json"), (
        response.text
    )
    found: dict[str, Any] = response.json()
    assert found["status"] == status
    return found
