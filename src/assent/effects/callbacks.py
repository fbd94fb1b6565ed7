"""Callbacks: an address that lets its holder push the results of one request, and do nothing else.

The effects worker signs it and the HTTP API verifies it, both with the same settings. The token in it is a JSON Web
Token of our own kind. Its key is derived for this purpose, its audience and its type are its own: a token that signs a
member in is no callback, and a callback signs no member in, whatever keys an operator chose.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit
from uuid import UUID

import jwt
from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from assent.model.mutation import Rejection
from assent.model.parse import shown
from assent.model.problems import Invalid
from assent.store.environment import EnvironmentSettings, number, read_secret

KEY_BYTES_MIN: Final = 32
"""A shorter key of HS256 can be guessed from one token."""


def _check_url(url: str) -> str:
    if not url:
        return url
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError(f"expected a URL such as https://assent.example.com, found {shown(url)}")
    return url.rstrip("/")


class CallbackSettings(EnvironmentSettings):
    """The field `url` is the variable `ASSENT_CALLBACKS_URL`; without both of them there are no callbacks."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_CALLBACKS_")

    url: Annotated[str, AfterValidator(_check_url)] = ""
    """Where the HTTP API can be reached from outside, such as `https://assent.example.com`."""
    key: Annotated[str, AfterValidator(read_secret)] = Field(default="", repr=False)
    """The key that signs callbacks; `@` and a file's name reads it from there."""
    days: int = number(90, 1, 3_650)
    """How many days a callback is valid after it was sent out."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Raise `Invalid` without showing the key."""
        problems = []
        if bool(self.url) != bool(self.key):
            missing = "key" if self.url else "url"
            problems.append(self.bad(missing, "expected a URL and a key together, found one alone"))
        if self.key and len(self.key.encode()) < KEY_BYTES_MIN:
            problems.append(
                self.bad("key", f"expected at least {KEY_BYTES_MIN} bytes for HS256, found fewer")
            )
        if problems:
            raise Invalid(problems)
        return self


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
