"""A request over HTTP and its answer, as values; and what an answer means. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from assent.jobs.job import Failed, JobOutcome, Succeeded
from assent.model.canonical import NotCanonical, require_canonical

if TYPE_CHECKING:
    import httpx

SHOWN_HEADERS: Final = ("content-type", "date", "location", "retry-after", "server", "x-request-id")
"""What is kept as evidence of an answer's headers; others may hold secrets of the receiver."""

TRY_AGAIN: Final = frozenset({408, 425, 429})
OBEYED: Final = frozenset({429, 503})
"""Statuses of responses whose `Retry-After` is obeyed."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    url: "httpx.URL"
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What came back. The body may be cut."""

    status: int
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""
    cut: Literal["", "too large", "lost"] = ""
    """Why there is no more of the body, where there should be."""
    took_ms: int = 0
    redirects: tuple[str, ...] = field(default=())
    """Where the request was sent on to."""

    def header(self, name: str) -> str | None:
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), None)


def bad_url(url: str, why: str) -> Failed:
    return Failed(
        "BAD_URL", f"expected a URL such as https://host/path, found {url!r}: {why}", permanent=True
    )


def read_url(text: str) -> "httpx.URL | Failed":
    """Return a URL that effects may be sent to, as far as that is known before its name is resolved."""
    import httpx  # noqa: PLC0415 - what only writes effects does not load it (WF-10)

    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        return bad_url(text, str(error))
    if url.scheme not in ("http", "https"):
        return bad_url(text, "only http and https are spoken")
    if url.userinfo:
        return bad_url(str(url.copy_with(userinfo=b"")), "it holds a name and a password; use a header")
    if not url.raw_host or b"%" in url.raw_host or not 0 < (url.port or 443) < 65_536:
        return bad_url(text, "it names no host")
    return url


def outcome_of(answer: HttpResponse, now: datetime, *, evidence_bytes_max: int, awaited: bool) -> JobOutcome:
    """Return what an answer means for the effect."""
    evidence = _evidence(answer, evidence_bytes_max)
    if 200 <= answer.status < 300:
        return _delivered(answer, evidence, awaited=awaited)
    again = answer.status in TRY_AGAIN or answer.status >= 500
    after = retry_after(answer, now) if answer.status in OBEYED else None
    message = f"the receiver answered {answer.status}"
    return Failed(f"HTTP_{answer.status}", message, not again, retry_after=after, evidence=evidence)


def _delivered(answer: HttpResponse, evidence: dict[str, Any], *, awaited: bool) -> JobOutcome:
    if not awaited:
        return Succeeded(evidence)
    if answer.cut == "too large":
        message = f"the answer is larger than {len(answer.body):,} bytes"
        return Failed("ANSWER_TOO_LARGE", message, permanent=True, evidence=evidence)
    if answer.cut:
        return Failed("ANSWER_LOST", "the answer ended in its middle", ambiguous=True, evidence=evidence)
    try:
        result = _result(answer)
        require_canonical(result)
    except NotCanonical as error:
        return Failed("ANSWER_NOT_KEPT", f"the answer cannot be kept: {error}", True, evidence=evidence)
    return Succeeded(evidence, result)


def _result(answer: HttpResponse) -> Any:
    """Return the body as JSON where it is that, else as text."""
    if not answer.body:
        return None
    if "json" in (answer.header("content-type") or ""):
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            pass
    return _text(answer.body)


def _evidence(answer: HttpResponse, bytes_max: int) -> dict[str, Any]:
    shown = {name: _kept(value) for name in SHOWN_HEADERS if (value := answer.header(name)) is not None}
    found: dict[str, Any] = {"status": answer.status, "headers": shown, "took_ms": answer.took_ms}
    found["body"] = _text(answer.body[:bytes_max])
    found["body_is_whole"] = not answer.cut and len(answer.body) <= bytes_max
    return found | ({"redirects": list(answer.redirects)} if answer.redirects else {})


def _text(body: bytes) -> str:
    return _kept(body.decode("utf-8", errors="replace"))


def _kept(text: str) -> str:
    return text.replace("\0", "�")


def retry_after(answer: HttpResponse, now: datetime) -> timedelta | None:
    """Return how long the receiver asks to be left alone, as a number of seconds or as a date."""
    said = (answer.header("retry-after") or "").strip()
    if said.isascii() and said.isdigit() and len(said) < 10:
        return timedelta(seconds=int(said))
    try:
        return max(parsedate_to_datetime(said) - now, timedelta())
    except (TypeError, ValueError):
        return None


def own_headers(given: Mapping[str, str], ours: Mapping[str, str], dropped: Iterable[str]) -> dict[str, str]:
    """Return the headers that the author gave, with our own headers, which the author cannot replace."""
    reserved = {*dropped, *ours}
    return {name: value for name, value in given.items() if name.lower() not in reserved} | dict(ours)
