"""Running one duty until it has to stop: again at once while there is more, else after a while or when woken.

A watchdog limits every run: one that takes too long is cancelled, and the connections that it held are replaced.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from assent.store.failures import is_outage
from assent.store.pool import HeldConnection, holding
from assent.worker.duty import Duty, DutyRun, Observer, RunResult
from assent.worker.options import Options

_log = logging.getLogger(__name__)

CANCEL_TIMEOUT_S: Final = 5.0
"""How long a cancelled run may take to roll back before its connections are ended and it is cancelled again."""


class RunTimeout(Exception):
    """A run was cut off: it took longer than its limit."""


class Loop:
    """One duty's loop. Errors of the duty are logged and waited out; they never end it."""

    def __init__(self, duty: Duty, options: Options, observe: Observer) -> None:
        self.duty = duty
        self._options = options
        self._observe = observe
        self._failures = 0
        self._backoff_max_ms = _longest_backoff_ms(duty, options)
        self._limit_s = options.run_limit_s(duty.name)
        self._unfinished_since_s: float | None = None
        """Since when a round has begun and none has finished; a run that was cut off has not finished."""
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._wake_duty: Callable[[], None] = getattr(duty, "wake", _nothing)

    def wake(self) -> None:
        """There may be something to do. What comes during a run is looked at after it, or in it."""
        self._woken.set()
        self._wake_duty()

    def stop(self) -> None:
        """Finish the run that is under way, and begin no other."""
        self._stopped.set()
        self._woken.set()
        self._wake_duty()

    @property
    def is_overdue(self) -> bool:
        """Whether the duty has not finished a round in its time."""
        since_s = self._unfinished_since_s
        return since_s is not None and time.monotonic() - since_s > self._limit_s

    async def run(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            self._unfinished_since_s = self._unfinished_since_s or time.monotonic()
            run = await run_duty(self.duty, self._limit_s)
            if not isinstance(run.error, RunTimeout):
                self._unfinished_since_s = None
            self._failures = self._failures + 1 if run.error else 0
            self._observe(run)
            await self._rest(run)
        await finish(self.duty)

    async def _rest(self, run: DutyRun) -> None:
        if run.error is not None:
            # Notifications do not end it: they would come as fast as the work that cannot be done.
            await _wait(self._stopped, self._backoff_s())
        elif run.done.more:
            await _wait(self._stopped, self.duty.pace.pause_s)
        else:
            await _wait(self._woken, self._time_to_next_run_s(run))

    def _time_to_next_run_s(self, run: DutyRun) -> float:
        interval_s, again_in_s = self._varied(self.duty.pace.interval_s), run.done.again_in_s
        return interval_s if again_in_s is None else min(interval_s, again_in_s)

    def _backoff_s(self) -> float:
        doubled_ms = self._options.backoff_min_ms * 2 ** min(self._failures - 1, 20)
        return self._varied(min(self._backoff_max_ms, doubled_ms) / 1000)

    def _varied(self, seconds: float) -> float:
        half = self._options.jitter_percent / 200
        return seconds * random.uniform(1 - half, 1 + half)  # noqa: S311 - jitter is no secret


def _longest_backoff_ms(duty: Duty, options: Options) -> int:
    """Return how long a duty may wait after an error.

    One that has jobs under way between its runs renews the worker's lease. It tries often enough that an outage shorter
    than the lease does not cost the lease, and with it the jobs that are still running.
    """
    has_jobs = hasattr(duty, "finish")
    return min(options.backoff_max_ms, options.lease_ms // 6) if has_jobs else options.backoff_max_ms


async def run_duty(duty: Duty, limit_s: float) -> DutyRun:
    """Return one run with its time, or with its error, which is logged."""
    started_s, held = time.monotonic(), HeldConnection()
    with holding(held):
        running = asyncio.create_task(duty.run_once(), name=f"run of {duty.name}")
    try:
        ended, _ = await asyncio.wait({running}, timeout=limit_s)
    except asyncio.CancelledError:
        running.cancel()
        await asyncio.wait({running})
        raise
    try:
        if ended:
            return DutyRun(duty.name, time.monotonic() - started_s, running.result())
        _log.error("duty took too long, cutting off", extra={"duty": duty.name, "limit_s": limit_s})
        await _cut_off(running, held)
        error: Exception = RunTimeout(f"{duty.name} took longer than {limit_s:g} s")
    except Exception as failure:
        _log_failure(duty, failure)
        error = failure
    return DutyRun(duty.name, time.monotonic() - started_s, RunResult(), error)


async def _cut_off(running: "asyncio.Task[RunResult]", held: HeldConnection) -> None:
    """Cancel a run until it ends: one that takes the loss of its transaction for an ordinary failure goes on."""
    held.condemn()
    while not running.done():
        running.cancel()
        await asyncio.wait({running}, timeout=CANCEL_TIMEOUT_S)
        held.terminate()
    if not running.cancelled():
        running.exception()  # or asyncio reports that it was never retrieved


def _log_failure(duty: Duty, error: Exception) -> None:
    """Log an error of a duty; where the database is away, its kind says all, and there is no trace."""
    said = {"duty": duty.name, "error": f"{type(error).__name__}: {error}"}
    _log.error("duty failed", exc_info=None if is_outage(error) else error, extra=said)


async def exhaust(duty: Duty, observe: Observer, options: Options | None = None) -> None:
    """Run a duty until it has nothing more to do, or fails."""
    limit_s = (options or Options.defaults()).run_limit_s(duty.name)
    more = True
    while more:
        run = await run_duty(duty, limit_s)
        observe(run)
        more = run.done.more
    await finish(duty)


async def finish(duty: Duty) -> None:
    """Let a duty end what it has under way, if it is one of those that do."""
    end: Callable[[], Awaitable[None]] | None = getattr(duty, "finish", None)
    if end is None:
        return
    try:
        await end()
    except Exception as error:
        _log_failure(duty, error)


def _nothing() -> None:
    """Most duties wait for nothing inside of a run."""


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
