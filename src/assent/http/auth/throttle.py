"""Rates: a token bucket for each member and class of request, in this process, and one for failed sign-ins.

Commands to workflows and writes of entities have their own buckets, so a bulk import leaves room for decisions. Failed
sign-ins are counted by network address; a caller who has signed in before with the same credentials is not delayed by
others at that address.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from typing import Final

from assent.http.problems import RefusedByHttp
from assent.http.settings import HttpSettings, RateClass
from assent.model.mutation import Rejection
from assent.model.timing import Clock
from assent.refusals import status_of

BUCKETS_MAX: Final = 100_000
"""Beyond it the least recently used buckets are dropped: they would be full again by then."""
KNOWN_MAX: Final = 10_000
NETWORK_BITS: Final = 64
"""The part of an IPv6 address that one subscriber has."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Rates:
    """Token buckets: each request takes a token, or waits for the next."""

    def __init__(self, settings: HttpSettings, clock: Clock) -> None:
        self._per_minute: dict[RateClass, int] = {
            "workflows": settings.rate_workflows_per_minute,
            "entities": settings.rate_entities_per_minute,
            "reads": settings.rate_reads_per_minute,
            "checks": settings.rate_checks_per_minute,
            "uploads": settings.rate_uploads_per_minute,
            "sign_ins": settings.rate_failed_sign_ins_per_minute,
        }
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str, RateClass], _Bucket] = OrderedDict()

    def wait_s(self, org_id: str, key: str, rate: RateClass) -> int:
        """Take a token; return zero, or the seconds to wait if there is none."""
        wait_s = self.left_s(org_id, key, rate)
        if not wait_s and (bucket := self._buckets.get((org_id, key, rate))):
            bucket.tokens -= 1
        return wait_s

    def left_s(self, org_id: str, key: str, rate: RateClass) -> int:
        """Return the seconds until the next token, without taking one."""
        per_minute = self._per_minute[rate]
        if not per_minute:
            return 0
        bucket = self._filled((org_id, key, rate), per_minute)
        return max(1, ceil((1 - bucket.tokens) * 60 / per_minute)) if bucket.tokens < 1 else 0

    def refusal(self, rate: RateClass, wait_s: int) -> RefusedByHttp:
        """Return the refusal with status 429 and the headers of draft-ietf-httpapi-ratelimit-headers."""
        rejection = Rejection("TOO_MANY_REQUESTS", f"the rate of {rate} is used up; try again in {wait_s} s")
        headers = {
            "retry-after": str(wait_s),
            "ratelimit": f'"{rate}";r=0;t={wait_s}',
            "ratelimit-policy": f'"{rate}";q={self._per_minute[rate]};w=60',
        }
        return RefusedByHttp(rejection, **headers)

    def _filled(self, place: tuple[str, str, RateClass], per_minute: int) -> _Bucket:
        now = self._clock.now().timestamp()
        bucket = self._buckets.setdefault(place, _Bucket(per_minute, now))
        bucket.tokens = min(per_minute, bucket.tokens + max(0.0, now - bucket.at) * per_minute / 60)
        bucket.at = now
        self._buckets.move_to_end(place)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return bucket


class SignInThrottle:
    """Counts failed sign-ins by network address, and refuses attempts beyond the rate without checking them."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def wait_s(self, place: str | None, authorization: str | None) -> int:
        """Return zero if a sign-in may be tried, or the seconds to wait."""
        wait_s = self._rates.left_s("", _network(place), "sign_ins")
        return wait_s if wait_s and _digest(authorization) not in self._known else 0

    def passed(self, authorization: str | None) -> None:
        """Remember credentials that signed in."""
        digest = _digest(authorization)
        self._known[digest] = None
        self._known.move_to_end(digest)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def refused(self, place: str | None, authorization: str | None, why: Rejection) -> None:
        """Count a failed sign-in, also one without credentials. A 503 is the server's own failure."""
        self._known.pop(_digest(authorization), None)
        if status_of(why.code) in (401, 403):
            self.note_failed(place)

    def note_failed(self, place: str | None) -> None:
        """Count a credential that is none of ours."""
        self._rates.wait_s("", _network(place), "sign_ins")


def _digest(authorization: str | None) -> bytes:
    """Return the digest of credentials, which are stored nowhere themselves."""
    return hashlib.sha256((authorization or "").encode()).digest()


def _network(place: str | None) -> str:
    """Return an IPv4 address, or the network of an IPv6 address."""
    try:
        address = ip_address(place or "")
    except ValueError:
        return place or "?"
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, NETWORK_BITS), strict=False))
