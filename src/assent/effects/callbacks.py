"""Callbacks: an address that lets its holder push the results of one request, and do nothing else.

The token in it is a JSON Web Token of our own kind. Its key is derived for this purpose, its audience and its type are
its own: a token that signs a member in is no callback, and a callback signs no member in, whatever keys an operator
chose.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import jwt

from assent.effects.settings import CallbackSettings
from assent.model.mutation import Rejection

AUDIENCE: Final = "assent:callback"
TYPE: Final = "assent-callback+jwt"
PATH: Final = "/callbacks/"

_ALGORITHM: Final = "HS256"
_PURPOSE: Final = b"assent callback tokens, version 1"
_OPTIONS: Final[Any] = {
    "require": ["exp", "aud"],
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
}


@dataclass(frozen=True, slots=True)
class Callback:
    """What a token allows: results for this request of this org."""

    org_id: str
    request_id: UUID


class Callbacks:
    """Signs and reads the tokens of one installation."""

    def __init__(self, settings: CallbackSettings) -> None:
        self._url = settings.url
        self._key = hmac.digest(settings.key.encode(), _PURPOSE, hashlib.sha256)
        self._holds = timedelta(days=settings.days)

    def url(self, org_id: str, request_id: UUID, now: datetime) -> str:
        return f"{self._url}{PATH}{self.token(org_id, request_id, now)}"

    def token(self, org_id: str, request_id: UUID, now: datetime) -> str:
        claims = {"aud": AUDIENCE, "org": org_id, "request": str(request_id), "exp": now + self._holds}
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM, headers={"typ": TYPE})

    def read(self, token: str, now: datetime) -> Callback | Rejection:
        """What a token allows, or why it is refused. The signature is compared in constant time, by PyJWT."""
        try:
            found = jwt.decode_complete(
                token, self._key, algorithms=[_ALGORITHM], audience=AUDIENCE, options=_OPTIONS
            )
            claims = found["payload"]
            callback = Callback(claims["org"], UUID(claims["request"]))
        except (jwt.PyJWTError, KeyError, ValueError, TypeError, AttributeError):
            return _refused()
        if found["header"].get("typ") != TYPE or not isinstance(callback.org_id, str):
            return _refused()
        if now.timestamp() >= claims["exp"]:
            return Rejection("TOKEN_EXPIRED", "the callback has expired")
        return callback


def _refused() -> Rejection:
    return Rejection("TOKEN_REFUSED", "the callback is none of ours")


def callbacks_of(settings: CallbackSettings) -> Callbacks | None:
    """Return what signs and reads callbacks; None if no URL is configured for them."""
    return Callbacks(settings) if settings.url else None
