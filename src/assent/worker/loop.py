"""Running one duty until it is told to stop: again at once while there is more, else after a while or when woken."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable

from assent.worker.duty import Done, Duty, Observer, Run
from assent.worker.options import Options

_log = logging.getLogger(__name__)


class Loop:
    """One duty's loop. Errors of the duty are logged and waited out; they never end it."""

    def __init__(self, duty: Duty, options: Options, observe: Observer) -> None:
        self.duty = duty
        self._options = options
        self._observe = observe
        self._failures = 0
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self._wake_duty: Callable[[], None] = getattr(duty, "wake", _nobody)

    def wake(self) -> None:
        """There may be something to do. What comes during a run is looked at after it, or in it."""
        self._woken.set()
        self._wake_duty()

    def stop(self) -> None:
        """Finish the run that is under way, and begin no other."""
        self._stopped.set()
        self._woken.set()
        self._wake_duty()

    async def run(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            run = await run_duty(self.duty)
            self._failures = self._failures + 1 if run.error else 0
            self._observe(run)
            await self._rest(run)
        await finish(self.duty)

    async def _rest(self, run: Run) -> None:
        if run.error is not None:
            # Notifications do not end it: they would come as fast as the work that cannot be done.
            await _wait(self._stopped, self._backoff_s())
        elif run.done.more:
            await _wait(self._stopped, self.duty.pace.pause_s)
        else:
            await _wait(self._woken, self._varied(self.duty.pace.interval_s))

    def _backoff_s(self) -> float:
        doubled_ms = self._options.backoff_min_ms * 2 ** min(self._failures - 1, 20)
        return self._varied(min(self._options.backoff_max_ms, doubled_ms) / 1000)

    def _varied(self, seconds: float) -> float:
        half = self._options.jitter_percent / 200
        return seconds * random.uniform(1 - half, 1 + half)  # noqa: S311 - jitter is no secret


async def run_duty(duty: Duty) -> Run:
    """One run with its time, or with its error, which is logged."""
    started_s = time.monotonic()
    try:
        done = await duty.run_once()
    except Exception as error:
        _log.exception("duty failed", extra={"duty": duty.name, "error": f"{type(error).__name__}: {error}"})
        return Run(duty.name, time.monotonic() - started_s, Done(), error)
    return Run(duty.name, time.monotonic() - started_s, done)


async def exhaust(duty: Duty, observe: Observer) -> None:
    """Run a duty until it has nothing more to do, or fails."""
    more = True
    while more:
        run = await run_duty(duty)
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
        _log.exception("duty failed", extra={"duty": duty.name, "error": f"{type(error).__name__}: {error}"})


def _nobody() -> None:
    """Most duties wait for nothing inside of a run."""


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
