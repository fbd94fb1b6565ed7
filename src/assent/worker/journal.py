"""The worker's log: what each duty did since the last line about it, and not a line for each batch."""

import logging
import time
from collections.abc import Callable

from assent.worker.duty import DutyRun
from assent.worker.tally import Tally

_log = logging.getLogger(__name__)


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
