"""Hearing notifications, over a connection of its own that comes back by itself.

While the connection is away notifications are lost, so after every reconnect each channel counts as notified
once. Notifications wake; they carry nothing, and whoever waits also looks at its queue now and then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import asyncpg

from assent.store.connect import Connection, connect
from assent.store.errors import StoreError
from assent.store.retry import backoff_s
from assent.store.settings import Settings

_log = logging.getLogger(__name__)


class Listener:
    """Listens on channels from entering to leaving: `async with Listener(url, ["events"]) as listener`."""

    def __init__(self, url: str, channels: Sequence[str], *, settings: Settings | None = None) -> None:
        self._url = url
        self._channels = tuple(channels)
        self._settings = settings or Settings()
        self._notified: set[str] = set()
        self._woken = asyncio.Event()
        self._lost = asyncio.Event()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def wait(self, timeout_s: float | None = None) -> frozenset[str]:
        """The channels notified since the last call, waiting for one; empty when the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        notified = frozenset(self._notified)
        self._notified.clear()
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
            await self._connection.close(timeout=self._settings.connect_timeout_ms / 1000)

    async def _listen(self) -> "asyncpg.Connection[asyncpg.Record]":
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
        while True:
            await self._lost.wait()
            self._connection = await self._listen_again()
            self._wake(*self._channels)

    async def _listen_again(self) -> "asyncpg.Connection[asyncpg.Record]":
        attempts = 0
        while True:
            try:
                return await self._listen()
            except (StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                attempts += 1
                _log.warning("Not listening on %s, attempt %d: %s", self._channels, attempts, error)
                await asyncio.sleep(backoff_s(attempts))

    def _on_loss(self, _: Connection) -> None:
        self._lost.set()

    def _on_notification(self, _connection: Connection, _pid: int, channel: str, _payload: object) -> None:
        self._wake(channel)

    def _wake(self, *channels: str) -> None:
        self._notified.update(channels)
        self._woken.set()
