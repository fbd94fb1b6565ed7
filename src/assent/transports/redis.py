"""Redis streams: a consumer group on one stream, by redis-py.

Entries that were read and not acknowledged stay pending. Those of this consumer are read again after the connection was
lost; those of a consumer that is gone are claimed once they have been idle for long enough.
"""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from assent.requests.messages import StreamMessage, StreamSource
from assent.transports.consumer import Cadence, StreamUnreachable
from assent.transports.settings import StreamSettings

BODY: Final = b"body"
"""The field of an entry that has the message."""

TIMEOUT_S: Final = 5.0
UNREAD_MAX: Final = 1_000
"""How many unread entries are counted on a server that does not count them (before Redis 7)."""

NEW: Final = ">"
OWN: Final = "0"
"""What is read of a group: new entries, or those that this consumer has read and not acknowledged."""


class RedisStream:
    """One stream, read as one consumer of a group."""

    def __init__(self, source: StreamSource, settings: StreamSettings) -> None:
        self._source = source
        self._settings = settings
        self._consumer = f"{socket.gethostname()}:{os.getpid()}"
        self._client: Redis | None = None
        self._has_pending = True
        """Whether this consumer may have entries that it has read and not acknowledged."""
        self._claims = Cadence(settings.claim_after_ms / 2_000)

    async def fetch(self, limit: int, wait_s: float) -> list[StreamMessage]:
        """Return what this consumer has pending, then what others left, then what is new."""
        async with self._connected() as client:
            if self._has_pending:
                if entries := await self._read(client, OWN, limit, 0):
                    return await self._messages(client, entries)
                self._has_pending = False
            if self._claims.is_due() and (entries := await self._claim(client, limit)):
                self._claims = Cadence(0)  # there may be more
                return await self._messages(client, entries)
            return await self._messages(client, await self._read(client, NEW, limit, wait_s))

    async def acknowledge(self, messages: Sequence[StreamMessage], dead: Sequence[StreamMessage]) -> None:
        async with self._connected() as client:
            await _reply(client.xack(*self._names, *(message.position for message in messages)))

    async def lag(self) -> int | None:
        async with self._connected() as client:
            groups = await _reply(client.xinfo_groups(self._source.stream))
            (group,) = [each for each in groups if _text(each["name"]) == self._settings.group]
            unread = group.get("lag")
            if unread is None:
                after = f"({_text(group['last-delivered-id'])}"
                unread = len(await _reply(client.xrange(self._source.stream, after, count=UNREAD_MAX)))
            return int(unread) + int(group["pending"])

    async def close(self) -> None:
        """Leave the group, where nothing is pending: what is, is claimed by others under this consumer's name."""
        if self._client is None:
            return
        with suppress(RedisError, OSError):
            pending = await _reply(
                self._client.xpending_range(*self._names, "-", "+", 1, consumername=self._consumer)
            )
            if not pending:
                await _reply(self._client.xgroup_delconsumer(*self._names, self._consumer))
        await self._disconnect()

    @property
    def _names(self) -> tuple[str, str]:
        return self._source.stream, self._settings.group

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Redis]:
        """Yield a client with its group; an error ends the connection, and the next use makes another."""
        try:
            if self._client is None:
                self._client = self._connect()
                await self._ensure_group(self._client)
            yield self._client
        except (RedisError, OSError) as error:
            await self._disconnect()
            raise StreamUnreachable(f"{self._source} cannot be read: {error}") from error
        except BaseException:
            await self._disconnect()  # what was asked may be answered to nothing
            raise

    def _connect(self) -> Redis:
        return Redis.from_url(
            self._settings.redis_url,
            socket_connect_timeout=TIMEOUT_S,
            socket_timeout=TIMEOUT_S + self._settings.wait_ms / 1000,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            single_connection_client=True,
            protocol=2,
        )

    async def _disconnect(self) -> None:
        client, self._client, self._has_pending = self._client, None, True
        if client is not None:
            with suppress(RedisError, OSError):
                await client.aclose()

    async def _ensure_group(self, client: Redis) -> None:
        try:
            await _reply(client.xgroup_create(*self._names, id="0", mkstream=True))
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def _read(self, client: Redis, since: str, limit: int, wait_s: float) -> list[Any]:
        block_ms = max(1, round(wait_s * 1000)) if since == NEW else None
        asked: dict[Any, Any] = {self._source.stream: since}
        streams = await _reply(
            client.xreadgroup(self._settings.group, self._consumer, asked, count=limit, block=block_ms)
        )
        return streams[0][1] if streams else []

    async def _claim(self, client: Redis, limit: int) -> list[Any]:
        """Take over entries that were read and not acknowledged for long; their consumer is taken for gone."""
        idle_ms = self._settings.claim_after_ms
        reply = await _reply(client.xautoclaim(*self._names, self._consumer, idle_ms, "0-0", count=limit))
        return list(reply[1])

    async def _messages(self, client: Redis, entries: Sequence[tuple[Any, Any]]) -> list[StreamMessage]:
        """Return entries as messages; those that were deleted from the stream meanwhile are acknowledged."""
        gone = [entry for entry, fields in entries if entry is not None and fields is None]
        if gone:
            await _reply(client.xack(*self._names, *gone))
        return [
            StreamMessage(fields.get(BODY, b""), _text(entry))
            for entry, fields in entries
            if fields is not None
        ]


async def _reply(asked: Awaitable[Any]) -> Any:
    """Await a reply: redis-py types its commands for clients that block and clients that do not."""
    return await asked


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
