"""Hands functions to the cluster, for one worker: connects to its scheduler, and again when it was lost."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from distributed import CancelledError, Client, KilledWorker

from assent.cluster.messages import CALL, END, NOTES, HookName, RemoteCall, RemoteEnd, lost
from assent.cluster.node import run_on_node
from assent.cluster.settings import ClusterSettings
from assent.model.timing import Clock
from assent.tasks.executor import FailedElsewhere, NotStarted, TaskCall
from assent.tasks.outcomes import Background, Blocked, Complete

_log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
"""How often a worker asks the scheduler for its nodes, and tries to connect where it is not."""
TOPICS: Final = 64
"""The scheduler keeps the last words of each topic for good, so that there are only so many: workers share them."""
GOODBYE_S: Final = 1.0
"""How long the scheduler may take to hear that a call is not wanted any more."""
CLOSE_S: Final = 5.0
"""How long closing a connection may take."""


@dataclass(eq=False)
class RunningCall:
    """A call that the cluster has."""

    call: TaskCall
    node: str | None = None
    """The node that runs it, once one does."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its node is not of the cluster any more."""


class ClusterExecutor:
    """Runs functions of tasks on the nodes of a Dask cluster."""

    def __init__(
        self, settings: ClusterSettings, worker_id: UUID, clock: Clock, on_change: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._timeout_s = settings.connect_timeout_ms / 1000
        self._topic = f"assent-{worker_id.int % TOPICS}"
        self._clock = clock
        self._on_change = on_change
        self._client: Client | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._calls: dict[str, RunningCall] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def is_reached(self) -> bool:
        """Whether the cluster can be reached and has a node."""
        return self._client is not None

    async def begin(self) -> None:
        """Connect in the background from now on; return when that has been tried once."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name="cluster")
        await self._tried.wait()

    async def close(self) -> None:
        """Leave the cluster, which interrupts what it still runs for this worker."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=GOODBYE_S)
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
            self._keeping = None
            self._tried.clear()

    async def run(self, call: TaskCall) -> Any:
        client = self._client
        if client is None:
            raise NotStarted("the cluster cannot be reached")
        key = f"assent-{call.task.key}-{call.task.attempt}-{uuid4().hex}"
        running = self._calls[key] = RunningCall(call)
        future = client.submit(run_on_node, _message(call), key, self._topic, key=key, pure=False)
        ending = asyncio.ensure_future(_ended(future))
        try:
            with call.task.time_stopped():
                await _first(ending, running.begun)
            await _first(ending, running.gone)
            return _returned(call, await self._end(running, ending))
        finally:
            ending.cancel()
            del self._calls[key]
            leaving = asyncio.create_task(_forget(client, future, key))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _end(self, running: RunningCall, ending: "asyncio.Future[bytes]") -> RemoteEnd:
        if not ending.done():
            return lost(f"{running.node} of the cluster, which ran it, was lost")
        try:
            return END.validate_json(ending.result())
        except (CancelledError, KilledWorker, OSError) as error:
            if not running.begun.is_set():
                raise NotStarted(str(error)) from error
            return lost(f"the cluster was lost while {running.node} ran it")

    async def _keep(self) -> None:
        """Stay connected; say so in the log where that changes."""
        said: str | None = None
        while True:
            try:
                await self._watch()
            except (OSError, TimeoutError, ImportError) as error:
                if said != (text := f"{type(error).__name__}: {error}"):
                    fields = {"address": self._settings.address, "error": text}
                    _log.warning("the cluster cannot be reached; its tasks are left to others", extra=fields)
                    said = text
            else:
                said = None
            self._tried.set()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _watch(self) -> None:
        """Connect, and look at the nodes until the connection is lost."""
        async with connected(self._settings) as client:
            client.subscribe_topic(self._topic, self._hear)
            try:
                while client.status == "running":
                    begun = [one for one in self._calls.values() if one.node is not None]
                    async with asyncio.timeout(self._timeout_s):
                        nodes = await _nodes(client)
                    for one in begun:
                        if one.node not in nodes:
                            one.gone.set()
                    self._reach(client if nodes else None)
                    await asyncio.sleep(LOOK_EVERY_S)
            finally:
                self._reach(None)

    def _reach(self, client: Client | None) -> None:
        changed, self._client = client is not self._client, client
        self._tried.set()
        if changed:
            fields = {"address": self._settings.address}
            _log.info("cluster reached" if client is not None else "cluster without nodes", extra=fields)
            self._on_change()

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Note what nodes say about calls; those of other workers, which share the topic, are left alone."""
        said = event[1]
        running = self._calls.get(said["key"])
        if running is None:
            return
        if (node := said.get("node")) is not None:
            running.node = node
            running.begun.set()
        now = self._clock.now()
        for body in said.get("said", ()):
            notes = NOTES.validate_json(body)
            if notes.progress is not None:
                running.call.task.notes.say(*notes.progress, now)
            for level, message in notes.lines:
                running.call.task.notes.log(message, level, now)


@asynccontextmanager
async def connected(settings: ClusterSettings) -> AsyncIterator[Client]:
    """Connect to the scheduler, and leave at the end; raise `OSError` or `TimeoutError` where it cannot be reached."""
    timeout_s = settings.connect_timeout_ms / 1000
    options = {"set_as_default": False, "direct_to_workers": False, "name": "assent"}
    client = Client(settings.address, asynchronous=True, timeout=timeout_s, **options)
    try:
        await client
        yield client
    finally:
        # Where the scheduler is lost, it waits two seconds for its own tasks; cut off earlier, it leaves them behind.
        with suppress(Exception):
            await client.close(timeout=CLOSE_S)
        client.status = (
            "closed"  # also where it was not closed in time; else it would try again when it is collected
        )


async def count_nodes(settings: ClusterSettings) -> int:
    """Return how many nodes the cluster has; raise `OSError` or `TimeoutError` where it cannot be reached."""
    async with connected(settings) as client, asyncio.timeout(settings.connect_timeout_ms / 1000):
        return len(await _nodes(client))


async def _nodes(client: Any) -> dict[str, int]:
    """Return the nodes of the cluster, each with its places."""
    nodes: dict[str, int] = await client.scheduler.ncores()
    return nodes


def _message(call: TaskCall) -> bytes:
    kind = call.kind
    names: dict[HookName, Any] = {
        "on_error": kind.on_error,
        "on_start": kind.on_start,
        "on_resume": kind.on_resume,
    }
    hook = next(name for name, found in names.items() if found is call.hook)
    return CALL.dump_json(RemoteCall(kind.place, hook, call.claimed, call.error))


async def _ended(future: Any) -> bytes:
    ended: bytes = await future.result()
    return ended


async def _first(ending: "asyncio.Future[bytes]", event: asyncio.Event) -> None:
    """Wait for the end of a call, or for an event."""
    waiting = asyncio.ensure_future(event.wait())
    either: tuple[asyncio.Future[Any], ...] = (ending, waiting)
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _forget(client: Any, future: Any, key: str) -> None:
    """Have the cluster interrupt what still runs, and forget the call."""
    with suppress(Exception):
        async with asyncio.timeout(GOODBYE_S):
            if not future.done():
                await client.cancel([future], force=True)
            future.release()
            await client.scheduler.event_clear(name=key)


def _returned(call: TaskCall, end: RemoteEnd) -> Any:
    """Return what the function returned on its node; raise `FailedElsewhere` for what it raised."""
    if end.raised:
        assert end.failed is not None
        raise FailedElsewhere(end.failed, is_expected=end.is_expected)
    for made in end.subtasks:
        call.task.take_subtask(made.id, made.type, made.input, made.priority)
    match end.kind:
        case "blocked":
            return Blocked()
        case "background":
            assert end.timeout is not None
            return Background(end.reason, end.timeout)
        case "failed":
            return end.failed
        case _:
            return Complete(end.output)
