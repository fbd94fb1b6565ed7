"""Bearer tokens: their claims, or why they are refused.

PyJWT checks the signature, the issuer and the audience; the times are checked here, with the database's clock.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jwt

from assent.http.auth.key_sets import Key, Keys
from assent.http.settings import HttpSettings
from assent.model.mutation import Rejection
from assent.model.names import is_blank, problem_of_id
from assent.model.timing import Clock

ORG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
"""The id of an org; never `*`, which means all orgs."""
TEXT_LENGTH_MAX: Final = 200
ROLES_MAX: Final = 200

_OPTIONS: Final = {
    "require": ["exp"],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """The claims of a token."""

    org_id: str
    user_id: str
    roles: frozenset[str] = frozenset()
    partition_id: str | None = None
    expires_at: datetime | None = None


class Tokens:
    """Reads tokens with the settings of one server."""

    def __init__(self, keys: Keys, settings: HttpSettings, clock: Clock) -> None:
        self._keys = keys
        self._settings = settings
        self._clock = clock

    async def read(self, text: str) -> TokenClaims | Rejection:
        """Return the claims of a token, or why it is refused."""
        try:
            header = jwt.get_unverified_header(text)
        except jwt.PyJWTError:
            return _refused("expected a signed JSON Web Token")
        key = await self._keys.find(header.get("kid"))
        if isinstance(key, Rejection):
            return key
        payload = self._verified(text, key)
        if isinstance(payload, Rejection):
            return payload
        return self._out_of_time(payload) or self._claims(payload)

    def _verified(self, text: str, key: Key) -> dict[str, Any] | Rejection:
        """Verify with the algorithm of the key: this refuses `none`, and a public key used as a secret."""
        settings = self._settings
        try:
            found: dict[str, Any] = jwt.decode(
                text,
                key.material,
                algorithms=[key.algorithm],
                audience=settings.jwt_audience,
                issuer=settings.jwt_issuer,
                options=_OPTIONS,  # type: ignore[arg-type]
            )
        except jwt.InvalidAudienceError:
            return _refused("the token has another audience")
        except jwt.InvalidIssuerError:
            return _refused("the token has another issuer")
        except jwt.InvalidAlgorithmError:
            return _refused(f"expected a token signed with {key.algorithm}")
        except jwt.MissingRequiredClaimError as error:
            return _refused(f"the token has no `{error.claim}`")
        except jwt.PyJWTError:
            return _refused("the token's signature is wrong")
        return found

    def _out_of_time(self, payload: Mapping[str, Any]) -> Rejection | None:
        now = self._clock.now().timestamp()
        leeway = timedelta(seconds=self._settings.jwt_leeway_s).total_seconds()
        expires, begins = payload["exp"], payload.get("nbf", 0)
        if not _is_time(expires) or not _is_time(begins):
            return _refused("expected `exp` and `nbf` in seconds")
        if now >= expires + leeway:
            return Rejection("TOKEN_EXPIRED", "the token has expired", hint="sign in again")
        if now < begins - leeway:
            return Rejection("TOKEN_NOT_YET_VALID", "the token is not valid yet")
        return None

    def _claims(self, payload: Mapping[str, Any]) -> TokenClaims | Rejection:
        settings = self._settings
        org = claim(payload, settings.claim_org)
        user = claim(payload, settings.claim_user)
        partition = claim(payload, settings.claim_partition)
        if not isinstance(org, str) or not ORG.fullmatch(org):
            return _refused(f"the token has no org under `{settings.claim_org}`")
        if not isinstance(user, str) or problem_of_id(user):
            return _refused(f"the token has no user under `{settings.claim_user}`")
        if partition is not None and not is_short_text(partition):
            return _refused(f"expected a short text under `{settings.claim_partition}`")
        roles = _roles(claim(payload, settings.claim_roles))
        if roles is None:
            return _refused(f"expected a list of roles under `{settings.claim_roles}`")
        expires_at = datetime.fromtimestamp(payload["exp"], UTC)
        return TokenClaims(org, user, roles, partition, expires_at)


def claim(payload: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path such as `realm_access.roles`."""
    if name in payload:
        return payload[name]
    found: Any = payload
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def is_short_text(value: object) -> bool:
    """Return whether a claim is a printable text that is not blank or too long."""
    if not isinstance(value, str) or is_blank(value):
        return False
    return len(value) <= TEXT_LENGTH_MAX and value.isprintable()


def _roles(value: object) -> frozenset[str] | None:
    """Return the roles of a list, or of a text with spaces between; None if it is neither."""
    found = value.split() if isinstance(value, str) else value or []
    if not isinstance(found, list) or len(found) > ROLES_MAX or not all(map(is_short_text, found)):
        return None
    return frozenset(found)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e11


def _refused(message: str) -> Rejection:
    return Rejection("TOKEN_REFUSED", message)
