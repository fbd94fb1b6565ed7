"""The pool of connections: handed out after a check, dropped when silent, condemned or old.

A connection on which the server did not answer is never used again, and the idle ones beside it are dropped with it:
most likely they went the same way. New connections are made when they are needed.
"""

import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

import asyncpg

from assent.store.clock import SYSTEM_CLOCK
from assent.store.connection import Connection, LiveConnection, connect
from assent.store.errors import PoolBusy, ServerSilent
from assent.store.failures import CONNECTION_LOST
from assent.store.queries import load_queries
from assent.store.settings import Settings

if TYPE_CHECKING:
    _Pooled = asyncpg.pool.PoolConnectionProxy[asyncpg.Record]

LIFETIME_JITTER: Final = 0.2
"""By which part a connection's lifetime is shortened, so that a pool is not replaced all at once."""

WRONG_SERVER: Final = frozenset({"25006"})
"""The server takes no writes: after a failover it may be a standby, and a new connection reaches another."""

_QUERIES: Final = load_queries("assent.store", "store.sql")


class HeldConnection:
    """The connections that one piece of work holds at this moment."""

    def __init__(self) -> None:
        self._connections: set[LiveConnection] = set()

    def add(self, connection: LiveConnection) -> None:
        self._connections.add(connection)

    def remove(self, connection: LiveConnection) -> None:
        self._connections.discard(connection)

    def condemn(self) -> None:
        """Have every connection dropped, instead of used again, when it is given back."""
        for connection in self._connections:
            connection.vitals.is_condemned = True

    def terminate(self) -> None:
        """End every connection now; what waits for one of them fails at once."""
        for connection in tuple(self._connections):
            connection.terminate()


_held: Final[ContextVar[HeldConnection | None]] = ContextVar("assent_held_connections", default=None)


@contextmanager
def holding(held: HeldConnection | None) -> Iterator[None]:
    """Inside, and in what is begun there, connections are noted in `held`; with None they are not."""
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)


class Pool:
    """Connections to one database, at most `pool_connections_max` at a time."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._wait_s = settings.pool_wait_timeout_ms / 1000
        self._check_after_s = settings.idle_check_after_ms / 1000
        self._check_timeout_s = settings.check_timeout_ms / 1000
        self._connections: WeakSet[LiveConnection] = WeakSet()
        self._pool: asyncpg.Pool[asyncpg.Record] = asyncpg.create_pool(
            url,
            min_size=settings.pool_connections_min,
            max_size=settings.pool_connections_max,
            # Out of reach: by default a connection is thrown away, prepared statements and all, every 50,000.
            max_queries=2**40,
            connect=self._connect,
            reset=_keep_as_it_is,
            connection_class=LiveConnection,
        )

    @classmethod
    async def open(cls, url: str, settings: Settings) -> Self:
        pool = cls(url, settings)
        await pool._pool
        return pool

    async def close(self) -> None:
        """Wait until every connection was given back, and close them all."""
        await self._pool.close()

    @property
    def sizes(self) -> tuple[int, int]:
        """How many connections are used, and how many are idle."""
        idle = self._pool.get_idle_size()
        return self._pool.get_size() - idle, idle

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection for as long as the block runs; raise `PoolBusy` where none was free in time."""
        connection, held = await self._acquire(), _held.get()
        live = _live(connection)
        if held is not None:
            held.add(live)
        try:
            yield connection
        except (TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError) as error:
            if live.is_cancelling:
                live.terminate()
            if live.vitals.is_silent:
                raise ServerSilent(
                    "PostgreSQL did not answer in time; the connection was dropped, and new ones are made"
                ) from error
            raise
        except asyncpg.PostgresError as error:
            live.vitals.is_condemned |= error.sqlstate in WRONG_SERVER
            raise
        finally:
            if held is not None:
                held.remove(live)
            await self._release(connection, live)

    async def _connect(self, *_: Any, **__: Any) -> LiveConnection:
        connection = await connect(self._url, self._settings)
        if lifetime_ms := self._settings.connection_lifetime_max_ms:
            shortened = 1 - LIFETIME_JITTER * random.random()  # noqa: S311 - jitter is no secret
            connection.vitals.lifetime_s = shortened * lifetime_ms / 1000
        self._connections.add(connection)
        return connection

    async def _acquire(self) -> "_Pooled":
        deadline_s = time.monotonic() + self._wait_s
        while True:
            try:
                connection = await self._pool.acquire(timeout=max(0.001, deadline_s - time.monotonic()))
            except TimeoutError as error:
                raise PoolBusy(
                    f"All {self._settings.pool_connections_max} connections were busy for {self._wait_s:g} s. "
                    "Raise ASSENT_POOL_CONNECTIONS_MAX, or find what holds them"
                ) from error
            if await self._is_usable(_live(connection)):
                return connection

    async def _is_usable(self, connection: LiveConnection) -> bool:
        """Return whether a connection may be used from now on; one that may not is dropped."""
        vitals, now_s = connection.vitals, time.monotonic()
        vitals.in_use = True
        if vitals.lifetime_s is not None and now_s - vitals.opened_s > vitals.lifetime_s:
            connection.terminate()
            return False
        if now_s - vitals.used_s < self._check_after_s and not SYSTEM_CLOCK.is_stale:
            return True
        try:
            # One statement asks whether the server answers, and what time it is there.
            SYSTEM_CLOCK.set(await connection.fetchval(_QUERIES.read_clock, timeout=self._check_timeout_s))
        except CONNECTION_LOST:
            connection.terminate()
            if vitals.is_silent:
                self._drop_idle()
            return False
        except BaseException:
            connection.terminate()
            raise
        return True

    async def _release(self, connection: "_Pooled", live: LiveConnection) -> None:
        live.vitals.in_use, live.vitals.used_s = False, time.monotonic()
        if live.vitals.is_silent:
            self._drop_idle()
        elif live.vitals.is_condemned:
            live.terminate()
        # A connection that was ended has gone back by itself; then this does nothing. One that ends at this moment
        # is an error for asyncpg, but not for the work that was done on it: it may be committed.
        try:
            await self._pool.release(connection)
        except CONNECTION_LOST:
            live.terminate()

    def _drop_idle(self) -> None:
        for connection in tuple(self._connections):
            if not (connection.vitals.in_use or connection.is_closed()):
                connection.terminate()


def _live(connection: "_Pooled") -> LiveConnection:
    """Return the connection behind the proxy that a pool hands out."""
    live: LiveConnection = connection.live  # type: ignore[attr-defined]
    return live


async def _keep_as_it_is(_: Connection) -> None:
    """Instead of asyncpg's reset, a round trip of 75 µs in 330: our transactions leave nothing behind."""
