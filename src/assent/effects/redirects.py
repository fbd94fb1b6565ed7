"""Where a redirect leads, and what goes along. Pure; the address is judged when it is connected to.

A receiver that sends a POST on with 301 or 302 expects, by custom, a GET without the body: that would count as
delivered and deliver nothing, so it is a failure that names the new place. 307 and 308 keep method and body.
"""

from typing import Final

import httpx

from assent.effects.requests import HttpRequest, HttpResponse, read_url
from assent.jobs.job import Failed

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

FORWARDED: Final = frozenset({"accept", "accept-encoding", "content-type", "idempotency-key", "user-agent"})
"""The headers that another host gets to see: no signature, no credentials, nothing that an author put there."""


def follow(request: HttpRequest, answer: HttpResponse) -> HttpRequest | Failed | None:
    """The next request; none when this answer is the last."""
    if answer.status not in REDIRECTS:
        return None
    target = _target(request.url, answer.header("location"))
    if isinstance(target, Failed):
        return target
    if request.method != "GET" and answer.status in (301, 302):
        message = f"the receiver has moved to {target} ({answer.status}); a {request.method} does not follow it there"
        return Failed("MOVED", message, permanent=True)
    if request.url.scheme == "https" and target.scheme == "http":
        return Failed("INSECURE_REDIRECT", f"{target} is not encrypted, the way there was", permanent=True)
    headers = dict(request.headers)
    if origin(request.url) != origin(target):
        headers = {name: value for name, value in headers.items() if name.lower() in FORWARDED}
    if answer.status == 303:
        kept = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return HttpRequest("GET", target, kept)
    return HttpRequest(request.method, target, headers, request.body)


def _target(base: httpx.URL, location: str | None) -> httpx.URL | Failed:
    if not location:
        return Failed("BAD_REDIRECT", "the receiver redirects without saying where to", permanent=True)
    try:
        return read_url(str(base.join(location)))
    except (httpx.InvalidURL, ValueError) as error:
        return Failed("BAD_REDIRECT", f"{location!r} is no URL: {error}", permanent=True)


def origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
