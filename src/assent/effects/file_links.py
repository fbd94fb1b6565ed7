"""Links that are signed and expire: to a file, and for an outside party to hand in the files of one request.

A token is a JSON Web Token of our own kind, signed with a key of the row to which it leads: a link is revoked
with its row, and no link of one row or kind is a link of another. Who reads a token learns where it leads, no more.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.mutation import Refused, Rejection

LinkKind = Literal["download", "upload"]

DOWNLOAD: Final[LinkKind] = "download"
UPLOAD: Final[LinkKind] = "upload"

DOWNLOADS: Final = "/downloads/"
UPLOADS: Final = "/uploads/"
"""The paths of the links."""

_ALGORITHM: Final = "HS256"
_OPTIONS: Final[Any] = {
    "require": ["exp", "aud"],
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
}


@dataclass(frozen=True, slots=True)
class LinkClaims:
    """Where a token says that it leads; true only after `require_link`."""

    org_id: str
    id: UUID


def sign_link(kind: LinkKind, org_id: str, id: UUID, key: str, expires_at: datetime) -> str:
    import jwt  # noqa: PLC0415  it loads cryptography, which few processes need

    claims = {"aud": f"assent:{kind}", "org": org_id, "id": str(id), "exp": expires_at}
    return jwt.encode(claims, key, algorithm=_ALGORITHM, headers={"typ": f"assent-{kind}+jwt"})


def upload_url(base_url: str, org_id: str, link_id: UUID, key: str, expires_at: datetime) -> str:
    """Return where an outside party hands in what one request asks for."""
    return f"{base_url.rstrip('/')}{UPLOADS}{sign_link(UPLOAD, org_id, link_id, key, expires_at)}"


def read_claims(kind: LinkKind, token: str) -> LinkClaims:
    """Return where a token says that it leads, unchecked, to find the key; raise `Refused` if it is no such token."""
    import jwt  # noqa: PLC0415  it loads cryptography, which few processes need

    try:
        found = jwt.decode_complete(token, options={"verify_signature": False})
        org_id, id = found["payload"]["org"], UUID(found["payload"]["id"])
        if (
            found["header"].get("typ") != f"assent-{kind}+jwt"
            or not isinstance(org_id, str)
            or "\x00" in org_id
        ):
            raise _unknown()
    except (jwt.PyJWTError, KeyError, ValueError, TypeError, AttributeError):
        raise _unknown() from None
    return LinkClaims(org_id, id)


def require_link(kind: LinkKind, token: str, claims: LinkClaims, key: str | None, now: datetime) -> None:
    """Raise `Refused` unless a token was signed with this key for these claims, and holds now."""
    import jwt  # noqa: PLC0415  it loads cryptography, which few processes need

    try:
        found = jwt.decode(
            token, key or "", algorithms=[_ALGORITHM], audience=f"assent:{kind}", options=_OPTIONS
        )
    except jwt.PyJWTError:
        raise _unknown() from None
    if key is None or (found.get("org"), found.get("id")) != (claims.org_id, str(claims.id)):
        raise _unknown()
    if not isinstance(found["exp"], int | float) or now.timestamp() >= found["exp"]:
        raise Refused(Rejection("LINK_EXPIRED", "the link has expired"))


def _unknown() -> Refused:
    return Refused(Rejection("NOT_FOUND", "the link is none of ours"))
