"""Faults at random: processes killed and stopped, links cut and frozen, clocks off, PostgreSQL crashed."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tests.faults.chaos.plant import Plant, Process

SKEWS_S: Final = (-7200, -120, 120, 7200)
STOPPED_S: Final = (0.5, 6.0)
BETWEEN_S: Final = (0.3, 2.0)


class Disorder:
    """Does one thing after another, and counts what it did."""

    def __init__(self, plant: Plant, seed: int) -> None:
        self._plant = plant
        self._chance = random.Random(seed)  # noqa: S311 - the same seed is the same run
        self._background: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self.done: Counter[str] = Counter()
        self._faults: list[tuple[str, int, Callable[[], Awaitable[None]]]] = [
            ("server killed", 2, self._kill_server),
            ("worker killed", 3, self._kill_worker),
            ("process stopped for a while", 3, self._stop_process),
            ("links cut", 4, self._cut),
            ("links frozen for a while", 2, self._freeze_for_a_while),
            ("links frozen for good", 2, self._freeze),
            ("connections refused for a while", 2, self._refuse),
            ("process restarted with a clock that is off", 2, self._skew),
            ("PostgreSQL: server process killed", 2, self._kill_backend),
            ("PostgreSQL: immediate shutdown", 1, self._stop_postgres),
            ("PostgreSQL: postmaster killed", 1, self._kill_postmaster),
        ]

    async def run(self) -> None:
        """Until `stop`; the fault that is under way is brought to its end."""
        names, weights, faults = zip(*self._faults, strict=True)
        while not await self._stopped_within(self._chance.uniform(*BETWEEN_S)):
            (index,) = self._chance.choices(range(len(faults)), weights)
            await faults[index]()
            self.done[names[index]] += 1

    def stop(self) -> None:
        self._stopping.set()

    async def _stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()

    async def end(self) -> None:
        """Let everything go on: links, stopped processes, and those that are down; clocks stay as they are."""
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._plant.postgres.start()
        for proxy in self._plant.proxies:
            proxy.admit()
            proxy.thaw()
        for process in self._plant.processes:
            process.send(signal.SIGCONT)
            if not process.runs:
                await process.start()

    async def _kill_server(self) -> None:
        await self._restart(self._chance.choice(self._plant.servers))

    async def _kill_worker(self) -> None:
        await self._restart(self._chance.choice(self._plant.workers))

    async def _skew(self) -> None:
        await self._restart(self._chance.choice(self._plant.processes), self._chance.choice(SKEWS_S))

    async def _restart(self, process: Process, skew_s: int = 0) -> None:
        await process.kill()
        await process.start(skew_s)

    async def _stop_process(self) -> None:
        process = self._chance.choice(self._plant.processes)
        process.send(signal.SIGSTOP)
        self._later(self._chance.uniform(*STOPPED_S), lambda: process.send(signal.SIGCONT))

    async def _cut(self) -> None:
        self._chance.choice(self._plant.proxies).cut()

    async def _freeze(self) -> None:
        self._chance.choice(self._plant.proxies).freeze()

    async def _freeze_for_a_while(self) -> None:
        proxy = self._chance.choice(self._plant.proxies)
        proxy.freeze()
        self._later(self._chance.uniform(*STOPPED_S), proxy.thaw)

    async def _refuse(self) -> None:
        proxy = self._chance.choice(self._plant.proxies)
        proxy.refuse()
        proxy.cut()
        self._later(self._chance.uniform(0.2, 2.0), proxy.admit)

    async def _kill_backend(self) -> None:
        self._plant.postgres.kill_backend(self._chance)

    async def _stop_postgres(self) -> None:
        await self._plant.postgres.stop_at_once()

    async def _kill_postmaster(self) -> None:
        await self._plant.postgres.kill_postmaster()

    def _later(self, delay_s: float, do: Callable[[], object]) -> None:
        async def wait() -> None:
            await asyncio.sleep(delay_s)
            do()

        task = asyncio.create_task(wait())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
