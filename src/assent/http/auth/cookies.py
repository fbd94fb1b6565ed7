"""The cookie of a session, and the check that a request which it signs in comes from our own pages.

A browser sends a cookie with every request to its server, whichever page makes the request. So a request that writes by
cookie has to show that it is of our own page: by a header that no form can set, and by what the browser says about its
origin.
"""

from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request

from assent.model.mutation import Refused, Rejection

CLIENT_HEADER: Final = "assent-client"
"""A page of another origin cannot send it: its browser would ask first, and CORS does not allow it."""
SESSION_SCHEME: Final = "session"
"""How a session is written where an `Authorization` header would stand."""
_NAME: Final = "assent"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name(request: Request) -> str:
    """Return the name of the cookie; under https one that no other host of the domain can set."""
    return f"__Host-{_NAME}" if request.url.scheme == "https" else _NAME


def credentials_of(request: Request) -> str | None:
    """Return the credentials of a request: its `Authorization` header, or the session of its cookie."""
    header = request.headers.get("authorization")
    if header is not None:
        return header
    token = request.cookies.get(cookie_name(request))
    return f"{SESSION_SCHEME} {token}" if token else None


def is_by_cookie(request: Request) -> bool:
    return "authorization" not in request.headers and bool(request.cookies.get(cookie_name(request)))


def session_token(request: Request) -> str | None:
    """Return the token of the session that signs a request in."""
    return request.cookies.get(cookie_name(request)) if is_by_cookie(request) else None


def require_own_page(request: Request) -> None:
    """Raise `Refused` for a request that writes and does not come from a page of this server."""
    if request.method in _SAFE:
        return
    if CLIENT_HEADER not in request.headers:
        raise _refused(f"a request that is signed in by a cookie needs the header `{CLIENT_HEADER}`")
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    # What the browser says about both ends counts more than `Host`, which a proxy may have changed.
    if site is not None:
        is_own = site == "same-origin"
    else:
        found = urlsplit(origin or "")
        is_own = (found.scheme, found.netloc) == (request.url.scheme, request.headers.get("host"))
    if not is_own:
        raise _refused("a request that is signed in by a cookie has to come from a page of this server")


def _refused(message: str) -> Refused:
    hint = "programs send `Authorization: Bearer …` with a token or an API key"
    return Refused(Rejection("ORIGIN_REFUSED", message, hint=hint))


def cookie_with(request: Request, token: str, expires_at: datetime, now: datetime) -> str:
    """Return the header `Set-Cookie` with a token."""
    seconds = max(0, int((expires_at - now).total_seconds()))
    secure = "; Secure" if request.url.scheme == "https" else ""
    return f"{cookie_name(request)}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def cookie_removed(request: Request) -> str:
    """Return the header `Set-Cookie` that removes the cookie."""
    secure = "; Secure" if request.url.scheme == "https" else ""
    return f"{cookie_name(request)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}"
