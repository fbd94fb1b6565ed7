"""What each duty has done: counts and rates since the worker started, and the worker's log.

The log has a line for each duty in an interval, and not a line for each batch.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from assent.worker.duty import DutyRun

_log = logging.getLogger(__name__)


RATE_WINDOW_S: Final = 10.0


class Tally:
    """The counts of one duty, over all its lanes."""

    def __init__(self) -> None:
        self.runs = 0
        self.count = 0
        self.errors = 0
        self.busy_s = 0.0
        self.parts: Counter[str] = Counter()
        self.last_error: Exception | None = None
        self._recent: deque[tuple[float, int]] = deque()

    def add(self, run: DutyRun, now_s: float) -> None:
        self.runs += 1
        self.count += run.done.count
        self.busy_s += run.took_s
        self.parts.update(run.done.parts)
        if run.error is not None:
            self.errors += 1
            self.last_error = run.error
        if run.done.count:
            self._recent.append((now_s, run.done.count))
        self._forget(now_s)

    def to_json(self) -> dict[str, object]:
        """For programs."""
        error = str(self.last_error) if self.last_error else None
        counts = {"count": self.count, "runs": self.runs, "errors": self.errors}
        return {**counts, "parts": dict(self.parts), "error": error}

    def per_second(self, now_s: float) -> float:
        """Return how many it did per second, over the last few."""
        self._forget(now_s)
        return sum(count for _, count in self._recent) / RATE_WINDOW_S

    def _forget(self, now_s: float) -> None:
        while self._recent and self._recent[0][0] < now_s - RATE_WINDOW_S:
            self._recent.popleft()


class Tallies:
    """An observer of runs that counts them by duty."""

    def __init__(self, names: list[str], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self.by_duty = {name: Tally() for name in names}

    def __call__(self, run: DutyRun) -> None:
        self.by_duty[run.duty].add(run, self._clock_s())

    def rates(self) -> dict[str, float]:
        """Return how many each duty does per second."""
        return {name: tally.per_second(self._clock_s()) for name, tally in self.by_duty.items()}


class Journal:
    """An observer of runs that sums them up, at most one line for each duty in an interval."""

    def __init__(self, interval_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock_s = clock_s
        self._open: dict[str, tuple[float, Tally]] = {}

    def __call__(self, run: DutyRun) -> None:
        now_s = self._clock_s()
        since_s, tally = self._open.setdefault(run.duty, (now_s, Tally()))
        tally.add(run, now_s)
        if now_s - since_s >= self._interval_s:
            self._write(run.duty)

    def close(self) -> None:
        """Write what is not yet written."""
        for duty in list(self._open):
            self._write(duty)

    def _write(self, duty: str) -> None:
        since_s, tally = self._open.pop(duty)
        if tally.count or tally.errors:
            span_s = round(self._clock_s() - since_s, 3)
            fields = {"runs": tally.runs, "count": tally.count, "errors": tally.errors, "span_s": span_s}
            _log.info("duty report", extra={"duty": duty, **fields, **_some(tally)})


def _some(tally: Tally) -> dict[str, dict[str, int]]:
    parts = {name: count for name, count in tally.parts.items() if count}
    return {"parts": parts} if parts else {}
