"""Hearing notifications, over a connection of its own that comes back by itself.

While the connection is away notifications are lost, so after every reconnect each channel counts as notified once.
Notifications wake. What they say is a hint: it may be lost, and a waiting worker also polls its queue. A connection
that only listens cannot tell a quiet server from one that is gone: it is checked every `listen_check_interval_ms`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

import asyncpg

from assent.store.connection import Connection, LiveConnection, connect
from assent.store.errors import StoreError
from assent.store.failures import backoff_s
from assent.store.queries import load_queries
from assent.store.settings import Settings

_log = logging.getLogger(__name__)
_QUERIES: Final = load_queries("assent.store", "store.sql")


DEAF: Final = "notifications do not arrive: workers find work by polling, up to a second later"
DEAF_REMEDY: Final = (
    "a pooler sits before the database; name the database itself in ASSENT_DIRECT_DATABASE_URL"
)
TRIAL_TIMEOUT_S: Final = 2.0


class Listener:
    """Listens on channels from entering to leaving: `async with Listener(url, ["events"]) as listener`."""

    def __init__(self, url: str, channels: Sequence[str], *, settings: Settings | None = None) -> None:
        self._url = url
        self._channels = tuple(channels)
        self._settings = settings or Settings.defaults()
        self._notified: dict[str, set[str]] = {}
        self._woken = asyncio.Event()
        self._lost = asyncio.Event()
        self._connection: LiveConnection | None = None
        self.hears: bool | None = None
        """Whether notifications arrive, as far as it is known: through a pooler they may not."""
        self._keeper: asyncio.Task[None] | None = None

    async def wait(self, timeout_s: float | None = None) -> frozenset[str]:
        """Return the channels notified since the last call, waiting for one; empty when the time is over."""
        return frozenset(await self.hear(timeout_s))

    async def hear(self, timeout_s: float | None = None) -> dict[str, set[str]]:
        """Return the messages of each channel, waiting for one; an empty text too where notifications may be lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        notified, self._notified = self._notified, {}
        self._woken.clear()
        return notified

    async def __aenter__(self) -> Self:
        # The first time a server that cannot be reached is the caller's problem; later it is ours.
        self._connection = await self._listen()
        self._keeper = asyncio.create_task(self._keep_listening(), name="listener")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._connection is not None:
            self._connection.remove_termination_listener(self._on_loss)
            await self._connection.close()

    async def _listen(self) -> LiveConnection:
        self._lost.clear()
        connection = await connect(self._url, self._settings)
        try:
            connection.add_termination_listener(self._on_loss)
            for channel in self._channels:
                await connection.add_listener(channel, self._on_notification)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _keep_listening(self) -> None:
        await self._try_hearing()
        while True:
            await self._wait_for_loss()
            self._connection = await self._listen_again()
            await self._try_hearing()
            for channel in self._channels:
                self._wake(channel)

    async def _try_hearing(self) -> None:
        """Log a warning where another session's notifications do not arrive, and everything waits for polling."""
        assert self._connection is not None
        try:
            self.hears = await hears_others(self._connection, self._url, self._settings)
        except (StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            _log.warning(
                "not known whether notifications arrive", extra={"error": f"{type(error).__name__}: {error}"}
            )
            return
        if not self.hears:
            _log.warning(DEAF, extra={"channels": self._channels, "remedy": DEAF_REMEDY})

    async def _wait_for_loss(self) -> None:
        """Return when the connection has ended, or was ended because the server does not answer on it."""
        interval_s = self._settings.listen_check_interval_ms / 1000
        while not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._lost.wait()
            if not self._lost.is_set():
                await self._check()

    async def _check(self) -> None:
        if self._connection is None:
            return
        try:
            within_s = self._settings.check_timeout_ms / 1000
            await self._connection.execute(_QUERIES.check_connection, timeout=within_s)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            said = {"channels": self._channels, "error": f"{type(error).__name__}: {error}"}
            _log.warning("the listening connection does not answer", extra=said)
            self._connection.remove_termination_listener(self._on_loss)  # or it is heard by the next one
            self._connection.terminate()
            self._lost.set()

    async def _listen_again(self) -> LiveConnection:
        attempts = 0
        while True:
            try:
                return await self._listen()
            except (StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                attempts += 1
                said = {"channels": self._channels, "attempt": attempts, "error": str(error)}
                _log.warning("not listening", extra=said)
                await asyncio.sleep(backoff_s(attempts))

    def _on_loss(self, _: Connection) -> None:
        self._lost.set()

    def _on_notification(self, _connection: Connection, _pid: int, channel: str, payload: object) -> None:
        self._wake(channel, str(payload))

    def _wake(self, channel: str, said: str = "") -> None:
        self._notified.setdefault(channel, set()).add(said)
        self._woken.set()


async def hears_others(connection: Connection, url: str, settings: Settings) -> bool:
    """Return whether notifications of other sessions arrive on a connection; through a pooler that is tried out.

    Behind a pooler the process that serves the connection is not the one that the server announced at the start.
    """
    if await connection.fetchval(_QUERIES.read_server_process) == connection.get_server_pid():
        return True
    channel, heard = f"assent_trial_{uuid4().hex}", asyncio.Event()
    await connection.add_listener(channel, lambda *_: heard.set())
    other = await connect(url, settings)
    try:
        await other.execute(_QUERIES.notify_listeners, channel, "")
        async with asyncio.timeout(TRIAL_TIMEOUT_S):
            await heard.wait()
    except TimeoutError:
        return False
    finally:
        await other.close()
    return True
