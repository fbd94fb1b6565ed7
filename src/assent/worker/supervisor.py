"""The supervisor: the one list of duties, and how they start and stop together."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from assent.model.problems import Invalid
from assent.store.database import Database
from assent.store.listen import Listener
from assent.store.settings import Settings
from assent.worker.alerts import Alerts
from assent.worker.blobs import BlobSweep
from assent.worker.digests import Digests
from assent.worker.duty import Duty, DutyRun, Observer, WorkerContext
from assent.worker.effects import Effects
from assent.worker.events import Events, Recover
from assent.worker.loop import Loop
from assent.worker.nodes import Nodes
from assent.worker.options import Options
from assent.worker.rescue import Rescue, Stuck, Unblock
from assent.worker.results import Results
from assent.worker.schedules import Schedules
from assent.worker.streams import Streams
from assent.worker.tasks import Tasks
from assent.worker.timers import Timeouts, Timers, Validity
from assent.worker.upkeep import Compact, Indexes, Names, Partitions, Prune, Retention

_log = logging.getLogger(__name__)

DUTIES: Final[tuple[type[Duty], ...]] = (
    Nodes,
    Names,
    Recover,
    Rescue,
    Unblock,
    Timers,
    Timeouts,
    Validity,
    Schedules,
    Streams,
    Results,
    Events,
    Effects,
    Tasks,
    Digests,
    Alerts,
    BlobSweep,
    Stuck,
    Partitions,
    Prune,
    Indexes,
    Compact,
    Retention,
)
"""Every duty, in the order in which one makes work for the next."""

NEED_RUNTIME: Final[tuple[type[Duty], ...]] = (
    Names,
    Recover,
    Schedules,
    Events,
    Effects,
    Tasks,
    Digests,
    Alerts,
    BlobSweep,
)

CANCEL_TIMEOUT_S: Final = 5.0
"""How long a run that is cut off may take to roll back."""


def duties(place: WorkerContext, only: Collection[str] = ()) -> list[Duty]:
    """Return the duties of these names, or all; without a runtime none that need it. Each stream has one."""
    possible = DUTIES if place.runtime is not None else [duty for duty in DUTIES if duty not in NEED_RUNTIME]
    chosen = [duty for duty in possible if duty.name in only or not only]
    place = replace(place, duties=tuple(duty.name for duty in chosen))
    return [one for duty in chosen for one in (Streams.each(place) if duty is Streams else [duty(place)])]


def with_nodes(place: WorkerContext, chosen: Sequence[Duty]) -> list[Duty]:
    """Return duties with the one by which a process says that it runs, whichever were chosen."""
    if any(isinstance(duty, Nodes) for duty in chosen):
        return list(chosen)
    return [Nodes(replace(place, duties=tuple(duty.name for duty in chosen))), *chosen]


def require_connections(settings: Settings, duties: Iterable[Duty], options: Options) -> None:
    """Raise `Invalid` where the pool has too few connections for these duties to run beside each other."""
    names = {duty.name for duty in duties}
    parts = [(1, "for the other duties")]
    if "events" in names:
        parts.append(
            (2 * options.events_lanes, f"two for each of ASSENT_WORKER_EVENTS_LANES={options.events_lanes}")
        )
    if "tasks" in names:
        parts.append(
            (options.tasks_lanes, f"one for each of ASSENT_WORKER_TASKS_LANES={options.tasks_lanes}")
        )
        own = settings.pool_task_transactions_max
        given = f", ASSENT_POOL_TASK_TRANSACTIONS_MAX={own}" if own else ""
        parts.append((own or 1, f"for transactions of tasks{given}"))
    needed, found = sum(count for count, _ in parts), settings.pool_connections_max
    if found < needed:
        sums = "; ".join(f"{count} {what}" for count, what in parts)
        message = f"expected at least {needed} connections ({sums}), found {found}. Raise it, or lower those"
        raise Invalid([settings.bad("pool_connections_max", message)])


class Supervisor:
    """Runs duties beside each other until it is stopped, and then lets them finish."""

    def __init__(
        self, database: Database, duties: Sequence[Duty], options: Options, observers: Iterable[Observer] = ()
    ) -> None:
        require_connections(database.settings, duties, options)
        self._database = database
        self._options = options
        self._observers = tuple(observers)
        self._stopping = asyncio.Event()
        self._loops = [Loop(duty, options, self._observe) for duty in duties for _ in range(duty.pace.lanes)]

    def stop(self) -> None:
        """Begin nothing new; `run` returns when what runs has finished."""
        self._stopping.set()
        for loop in self._loops:
            loop.stop()

    def overdue(self) -> list[str]:
        """Return the duties that have not finished a round in their time."""
        return sorted({loop.duty.name for loop in self._loops if loop.is_overdue})

    async def run(self) -> bool:
        """Run until stopped. True when everything finished in time, false when something was cut off."""
        async with AsyncExitStack() as stack:
            if channels := sorted({channel for loop in self._loops for channel in loop.duty.pace.channels}):
                listener = await stack.enter_async_context(self._database.listen(*channels))
                stack.callback(asyncio.create_task(self._ring(listener), name="ring").cancel)
            running = {asyncio.create_task(loop.run(), name=loop.duty.name) for loop in self._loops}
            try:
                await self._wait_for_stop(running)
                return await self._drain(running)
            finally:
                await _cancel(running)

    async def _ring(self, listener: Listener) -> None:
        while True:
            notified = await listener.hear()
            woken = [loop for loop in self._loops if notified.keys() & set(loop.duty.pace.channels)]
            for duty in {id(loop.duty): loop.duty for loop in woken}.values():
                if (hear := getattr(duty, "hear", None)) is not None:
                    hear({said for channel in duty.pace.channels for said in notified.get(channel, ())})
            for loop in woken:
                loop.wake()

    async def _wait_for_stop(self, running: set[asyncio.Task[None]]) -> None:
        """Return after a call of `stop`, or when a loop has ended by itself, which only a bug in it causes."""
        stopping = asyncio.create_task(self._stopping.wait(), name="stopping")
        await asyncio.wait({stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        self.stop()

    async def _drain(self, running: set[asyncio.Task[None]]) -> bool:
        grace_s = self._options.grace_period_ms / 1000
        ended, late = await asyncio.wait(running, timeout=grace_s)
        if mistakes := [error for loop in ended if isinstance(error := loop.exception(), Exception)]:
            raise ExceptionGroup("loops ended that never should", mistakes)
        if late:
            names = sorted(loop.get_name() for loop in late)
            _log.warning("grace period is over, cutting off", extra={"duties": names, "grace_s": grace_s})
        return not late

    def _observe(self, run: DutyRun) -> None:
        for observer in self._observers:
            observer(run)


async def _cancel(running: set[asyncio.Task[None]]) -> None:
    late = {task for task in running if not task.done()}
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=CANCEL_TIMEOUT_S)
    for task in late:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            _log.error("cut off with an error", extra={"duty": task.get_name(), "error": repr(error)})
