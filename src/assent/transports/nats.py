"""NATS JetStream: a durable pull consumer of one stream, by nats-py."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.client import JetStreamContext

from assent.requests.messages import StreamMessage, StreamSource
from assent.store.environment import split_list
from assent.transports.consumer import StreamUnreachable
from assent.transports.settings import StreamSettings

T = TypeVar("T")

TIMEOUT_S: Final = 5.0
RETRY_S: Final = 0.1
"""How long nats-py waits before it tries a server again to which it could not connect."""


class JetStream:
    """One stream, read through a durable consumer that all workers share."""

    def __init__(self, source: StreamSource, settings: StreamSettings) -> None:
        self._source = source
        self._settings = settings
        self._client: Client | None = None
        self._subscription: JetStreamContext.PullSubscription | None = None
        self._error: Exception | None = None
        self._closed = asyncio.Event()
        """Set when the connection has ended."""
        self._unacknowledged: dict[str, Msg] = {}
        """By position, what was read and not acknowledged over this connection."""

    async def fetch(self, limit: int, wait_s: float) -> list[StreamMessage]:
        subscription = await self._connected()
        found = await self._ask(_fetch(subscription, limit, wait_s), TIMEOUT_S + wait_s)
        read = {str(message.metadata.sequence.stream): message for message in found}
        self._unacknowledged.update(read)
        return [StreamMessage(message.data, position) for position, message in read.items()]

    async def acknowledge(self, messages: Sequence[StreamMessage], dead: Sequence[StreamMessage]) -> None:
        """Acknowledge what is kept, and end the delivery of what is dead; what another connection read comes again."""
        await self._connected()
        buried = {message.position for message in dead}
        read = [(one.position in buried, self._unacknowledged.pop(one.position, None)) for one in messages]
        await self._ask(self._settle([(is_dead, one) for is_dead, one in read if one is not None]))

    async def lag(self) -> int | None:
        subscription = await self._connected()
        info = await self._ask(subscription.consumer_info())
        return (info.num_pending or 0) + (info.num_ack_pending or 0)

    async def close(self) -> None:
        client, self._client, self._subscription = self._client, None, None
        self._unacknowledged.clear()
        if client is not None and not self._closed.is_set():
            with suppress(NatsError, OSError, asyncio.TimeoutError):
                await asyncio.wait_for(client.close(), TIMEOUT_S)

    async def _settle(self, read: Sequence[tuple[bool, Msg]]) -> None:
        for is_dead, message in read:
            await (message.term() if is_dead else message.ack())
        if self._client is not None:
            await self._client.flush()

    async def _connected(self) -> JetStreamContext.PullSubscription:
        if self._subscription is None or self._closed.is_set():
            await self.close()
            self._closed, self._error = asyncio.Event(), None
            self._subscription = await self._ask(self._subscribe())
        return self._subscription

    async def _ask(self, question: Coroutine[Any, Any, T], within_s: float = TIMEOUT_S) -> T:
        """Return the answer; raise `StreamUnreachable` where none came, and use another connection then.

        When a connection ends, nats-py cancels some of what waits for it and forgets the rest: neither must reach us.
        """
        asked, closed = asyncio.create_task(question), asyncio.create_task(self._closed.wait())
        try:
            await asyncio.wait({asked, closed}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if asked.done() and not asked.cancelled():
                return asked.result()
        except (NatsError, OSError) as error:
            said = f"{error} ({self._error})" if self._error is not None else str(error)
            raise StreamUnreachable(f"{self._source} cannot be read: {said}") from error
        finally:
            if not asked.done() or asked.cancelled() or asked.exception() is not None:
                self._subscription = None
            asked.cancel()
            closed.cancel()
        raise StreamUnreachable(f"{self._source} cannot be read: the server does not answer")

    async def _on_error(self, error: Exception) -> None:
        """Remember what goes wrong on the connection: what is asked of it next fails without saying why."""
        self._error = error

    async def _subscribe(self) -> JetStreamContext.PullSubscription:
        closed = self._closed

        async def on_close() -> None:
            closed.set()

        self._client = await nats.connect(
            list(split_list(self._settings.nats_url)),
            allow_reconnect=False,  # the worker's loop tries again, with its backoff
            max_reconnect_attempts=1,
            reconnect_time_wait=RETRY_S,
            connect_timeout=round(TIMEOUT_S),
            error_cb=self._on_error,
            disconnected_cb=on_close,
            closed_cb=on_close,
            user_credentials=self._settings.nats_credentials or None,
        )
        stream = self._client.jetstream(timeout=TIMEOUT_S)
        wanted = ConsumerConfig(
            durable_name=self._settings.group,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._settings.claim_after_ms / 1000,
            max_ack_pending=max(1_000, 10 * self._settings.batch_max),
        )
        await stream.add_consumer(self._source.stream, wanted)
        return await stream.pull_subscribe_bind(self._settings.group, stream=self._source.stream)


async def _fetch(subscription: JetStreamContext.PullSubscription, limit: int, wait_s: float) -> list[Msg]:
    try:
        return await subscription.fetch(limit, timeout=wait_s)
    except TimeoutError:  # nothing came: its own, or that of asyncio
        return []
