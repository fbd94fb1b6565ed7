"""How long one job waits from its submission to the first line of its function, in one process with an idle worker."""

import asyncio
import time
from collections.abc import Awaitable, Callable

IGNORED = 10
"""Jobs before those that count: the worker listens by then."""
PAUSE_S = 0.02


class BeginTimes:
    """The times at which functions have begun, by the number of their job."""

    def __init__(self) -> None:
        self._begun: asyncio.Queue[float] = asyncio.Queue()

    def begin(self) -> None:
        """Note that a function has begun."""
        self._begun.put_nowait(time.perf_counter())

    async def measure_ms(self, submit: Callable[[], Awaitable[object]], count: int) -> list[float]:
        """Submit jobs one by one, and return how long each has waited."""
        waits = []
        for number in range(count + IGNORED):
            await asyncio.sleep(PAUSE_S)
            submitted = time.perf_counter()
            await submit()
            wait_ms = (await self._begun.get() - submitted) * 1000
            if number >= IGNORED:
                waits.append(wait_ms)
        return waits
