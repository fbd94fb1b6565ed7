"""How long to wait before something is tried again: longer each time, and never quite the same."""

import random
from datetime import timedelta
from typing import Final

JITTER: Final = 0.2


def backoff(attempts: int, shortest: timedelta, longest: timedelta, factor: int = 2) -> timedelta:
    """How long to wait after so many attempts, before jitter."""
    return min(longest, shortest * float(factor ** min(attempts - 1, 20)))


def jittered(length: timedelta) -> timedelta:
    """What failed together is not tried again together."""
    return length * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - jitter is no secret
