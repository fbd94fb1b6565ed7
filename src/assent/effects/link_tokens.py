"""The tokens of links that need no sign-in: what a token is about, signed, for some days.

A token is a JSON Web Token of our own. Each kind of link has a key that is derived for its purpose, an audience and a
type: a token of one kind is none of another, and none that signs a member in, whatever keys an operator chose.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from assent.effects.settings import CallbackSettings
from assent.model.mutation import Rejection

_ALGORITHM: Final = "HS256"
_OPTIONS: Final[Any] = {
    "require": ["exp", "aud"],
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
}


@dataclass(frozen=True, slots=True)
class LinkTokenKind:
    """A kind of link: how it is called, and what keeps its tokens apart from those of others."""

    noun: str
    path: str
    audience: str
    type: str
    purpose: bytes


class LinkTokens:
    """Signs and reads the tokens of one kind of link."""

    def __init__(self, kind: LinkTokenKind, settings: CallbackSettings) -> None:
        self._kind = kind
        self._url = settings.url
        self._key = hmac.digest(settings.key.encode(), kind.purpose, hashlib.sha256)
        self._holds = timedelta(days=settings.days)

    def link(self, token: str) -> str:
        return f"{self._url}{self._kind.path}{token}"

    def sign(self, claims: Mapping[str, str], now: datetime) -> str:
        import jwt  # noqa: PLC0415  it loads cryptography, which few processes need

        content = {"aud": self._kind.audience, **claims, "exp": now + self._holds}
        return jwt.encode(content, self._key, algorithm=_ALGORITHM, headers={"typ": self._kind.type})

    def verify(self, token: str, names: tuple[str, ...], now: datetime) -> dict[str, str] | Rejection:
        """Return the named claims, all of which are texts, or why a token is refused.

        PyJWT compares the signature in constant time.
        """
        import jwt  # noqa: PLC0415  it loads cryptography, which few processes need

        try:
            found = jwt.decode_complete(
                token, self._key, algorithms=[_ALGORITHM], audience=self._kind.audience, options=_OPTIONS
            )
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
            return self.refusal()
        payload = found["payload"]
        claims = {name: payload.get(name) for name in names}
        if found["header"].get("typ") != self._kind.type or not _are_texts(claims):
            return self.refusal()
        if now.timestamp() >= payload["exp"]:
            return Rejection("TOKEN_EXPIRED", f"the {self._kind.noun} has expired")
        return claims

    def refusal(self) -> Rejection:
        return Rejection("TOKEN_REFUSED", f"the {self._kind.noun} is none of ours")


def _are_texts(claims: Mapping[str, Any]) -> bool:
    return all(isinstance(value, str) for value in claims.values())
