"""The runtime for code that blocks: the same commands under the same names, each waiting for its result.

They run on one event loop in a thread of its own. Every thread of the process may use it. Nothing is opened before the
first command, and a process that was forked opens its own: a connection cannot be shared.
"""

import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar
from weakref import WeakSet

from assent.model.actor import Actor
from assent.people.orgs import Org
from assent.runtime.runtime import OrgRuntime, Runtime
from assent.runtime.sync_commands import SyncNouns
from assent.store.caller_transaction import find_blocking
from assent.store.database import Database
from assent.store.loop_thread import LoopThread
from assent.store.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Opened:
    """What one process has: a thread with a loop, connections, and the runtime on them."""

    thread: LoopThread
    database: Database
    runtime: Runtime


class SyncRuntime:
    """An application on one database, for threads that block; `org` binds an org and an actor, and offers the commands.

    runtime = app.sync_runtime(url)
    runtime.org("acme", ann).approvals.decide(request_id, "approved")
    """

    def __init__(
        self, make: Callable[[Database], Runtime], url: str | None = None, settings: Settings | None = None
    ) -> None:
        self._make = make
        self._url = url
        self._settings = settings
        self._opened: _Opened | None = None
        self._lock = threading.Lock()
        _runtimes.add(self)

    def org(
        self, org_id: str, actor: Actor | None = None, partition_id: str | None = None
    ) -> "SyncOrgRuntime":
        """Return the commands for an org, by an actor, in one partition of the org or in all of it.

        Without an actor, only commands that need none are accepted: they act as the system.
        """
        return SyncOrgRuntime(self, lambda runtime: runtime.org(org_id, actor, partition_id))

    def create_org(
        self, org_id: str, name: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> Org:
        """Create an org, as the operator of the database; raise `Refused` if there is one, or `Invalid`."""
        opened = self._open()
        return opened.thread.run(opened.runtime.create_org(org_id, name, settings))

    @contextmanager
    def within(
        self, caller: Any, org_id: str, actor: Actor | None = None, partition_id: str | None = None
    ) -> "Iterator[SyncOrgRuntime]":
        """Return the commands in the transaction of a psycopg connection, or of SQLAlchemy or Django on psycopg.

        with runtime.within(session, "acme", ann) as acme:
            acme.entities.mutate("expense.create", {"title": "Taxi"})
            acme.events.emit("order:paid:42")

        Everything in the block commits, or rolls back, with the caller's own rows; a command that is refused rolls back
        alone. Statements run in the caller's thread. The caller's role must be allowed to become the engine's role; the
        role that migrated is.
        """
        opened, caller = self._open(), find_blocking(caller)
        entered = opened.runtime.within(caller, org_id, actor, partition_id)
        bound = opened.thread.run(_await(entered.__aenter__()))
        try:
            yield SyncOrgRuntime(self, lambda _: bound)
        except BaseException as error:
            opened.thread.run(_await(entered.__aexit__(type(error), error, error.__traceback__)))
            raise
        opened.thread.run(_await(entered.__aexit__(None, None, None)))

    def run(
        self, work: Callable[Concatenate[Database, P], Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run an async function of the database, such as `assent.migrate`, and return its result."""
        opened = self._open()
        return opened.thread.run(_await(work(opened.database, *args, **kwargs)))

    def close(self) -> None:
        """Cancel what runs, close every connection and end the thread; a later command opens them again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            atexit.unregister(self._close_at_exit)
            opened.thread.close(opened.database.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _close_at_exit(self) -> None:
        """Close the connections; an embedded server is left by its own handler, for no thread can be begun now."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.thread.close(opened.database.disconnect())

    def _run(
        self,
        bind: Callable[[Runtime], OrgRuntime],
        work: Callable[[OrgRuntime], Coroutine[Any, Any, R]],
    ) -> R:
        opened = self._open()
        return opened.thread.run(work(bind(opened.runtime)))

    def _open(self) -> _Opened:
        if (opened := self._opened) is not None:
            return opened
        with self._lock:
            if self._opened is None:
                thread = LoopThread()
                try:
                    database = thread.run(Database.open(self._url, settings=self._settings))
                except BaseException:
                    thread.close()
                    raise
                self._opened = _Opened(thread, database, self._make(database))
                atexit.register(self._close_at_exit)
            return self._opened

    def _forget(self) -> None:
        """Leave to the parent what is the parent's, in a process that was forked."""
        if self._opened is not None:
            # Kept, not closed: what ends an object of the loop would say goodbye on a socket that both processes have.
            _inherited.append(self._opened)
            atexit.unregister(self._close_at_exit)
        self._opened, self._lock = None, threading.Lock()


_runtimes: Final[WeakSet[SyncRuntime]] = WeakSet()
_inherited: Final[list[_Opened]] = []


def _forget_all() -> None:
    for runtime in tuple(_runtimes):
        runtime._forget()


os.register_at_fork(after_in_child=_forget_all)


async def _await(awaited: Awaitable[R]) -> R:
    return await awaited


class SyncOrgRuntime(SyncNouns):
    """The commands of an application that block, bound to an org, an actor and optionally a partition."""

    def __init__(self, runtime: SyncRuntime, bind: Callable[[Runtime], OrgRuntime]) -> None:
        self._runtime = runtime
        self._bind = bind
        super().__init__(lambda work: runtime._run(bind, work))

    def by(self, actor: Actor) -> "SyncOrgRuntime":
        """Return the same commands for another actor."""
        bind = self._bind
        return SyncOrgRuntime(self._runtime, lambda runtime: bind(runtime).by(actor))
