"""How often somebody may ask: a bucket of tokens for each member and class of request, in this process.

Commands to workflows and writes of entities have buckets of their own, so that a bulk import leaves room for decisions.
"""

from collections import OrderedDict
from dataclasses import dataclass
from math import ceil
from typing import Final

from assent.http.problems import RefusedByHttp
from assent.http.settings import HttpSettings, RateClass
from assent.model.clock import Clock
from assent.model.mutation import Rejection

BUCKETS_MAX: Final = 100_000
"""Of those that were not used for longest, the oldest go: by then they would be full again."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Rates:
    """Takes a token for each request, or says how many seconds to wait for the next."""

    def __init__(self, settings: HttpSettings, clock: Clock) -> None:
        self._per_minute: dict[RateClass, int] = {
            "workflows": settings.rate_workflows_per_minute,
            "entities": settings.rate_entities_per_minute,
            "reads": settings.rate_reads_per_minute,
            "checks": settings.rate_checks_per_minute,
            "sign_ins": settings.rate_failed_sign_ins_per_minute,
        }
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str, RateClass], _Bucket] = OrderedDict()

    def wait_s(self, org_id: str, key: str, rate: RateClass) -> int:
        """Take a token; zero when the request may go on."""
        wait_s = self.left_s(org_id, key, rate)
        if not wait_s and (bucket := self._buckets.get((org_id, key, rate))):
            bucket.tokens -= 1
        return wait_s

    def left_s(self, org_id: str, key: str, rate: RateClass) -> int:
        """How long the next token is away; nothing is taken."""
        per_minute = self._per_minute[rate]
        if not per_minute:
            return 0
        bucket = self._filled((org_id, key, rate), per_minute)
        return max(1, ceil((1 - bucket.tokens) * 60 / per_minute)) if bucket.tokens < 1 else 0

    def refusal(self, rate: RateClass, wait_s: int) -> RefusedByHttp:
        """429, with what a client needs to do better (draft-ietf-httpapi-ratelimit-headers)."""
        rejection = Rejection("TOO_MANY_REQUESTS", f"more than {rate} takes; try again in {wait_s} s")
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
