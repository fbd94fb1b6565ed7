"""Kafka: a consumer of a group on one topic, by confluent-kafka.

librdkafka blocks, so each consumer has a thread of its own, in which everything about it happens, rebalances too.
Offsets are committed by hand, of partitions that the consumer still has. Its connections come back by themselves.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from assent.requests.messages import StreamMessage, StreamSource
from assent.transports.consumer import StreamUnreachable
from assent.transports.settings import StreamSettings

_log = logging.getLogger(__name__)

T = TypeVar("T")

JOIN_TIMEOUT_S: Final = 15.0
"""How long the first read waits for partitions."""
TIMEOUT_S: Final = 5.0
QUEUED_KIB_MAX: Final = 16_384
"""How much librdkafka reads ahead of us."""

AWAY: Final = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION})
REBALANCING: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._NO_OFFSET,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""Errors of a commit of offsets while the group gives its partitions to other members."""


class KafkaTopic:
    """One topic, read as one member of a consumer group."""

    def __init__(self, source: StreamSource, settings: StreamSettings) -> None:
        self._source = source
        self._settings = settings
        self._thread: ThreadPoolExecutor | None = None
        self._consumer: KafkaConsumer | None = None
        self._has_joined = False
        self._error: KafkaError | None = None
        """What the brokers last said, and nothing has contradicted since."""
        self._kept: dict[int, int] = {}
        """By partition, the offsets to commit: where reading begins again."""
        self._has_lost = False
        """Whether something was read and never returned: what comes after it must not be committed."""

    async def fetch(self, limit: int, wait_s: float) -> list[StreamMessage]:
        try:
            return await self._in_thread(lambda: self._fetch(limit, wait_s))
        except asyncio.CancelledError:
            self._has_lost = True
            raise

    async def acknowledge(self, messages: Sequence[StreamMessage], dead: Sequence[StreamMessage]) -> None:
        for message in messages:
            partition, _, offset = message.position.partition("/")
            self._kept[int(partition)] = max(int(offset) + 1, self._kept.get(int(partition), 0))
        await self._in_thread(self._commit)

    async def lag(self) -> int | None:
        return await self._in_thread(self._lag)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=str(self._source))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except KafkaException as error:
            said = error.args[0].str() if isinstance(error.args[0], KafkaError) else str(error)
            raise StreamUnreachable(f"{self._source} cannot be read: {said}") from error

    def _fetch(self, limit: int, wait_s: float) -> list[StreamMessage]:
        if self._has_lost:
            self._close()
        consumer = self._consumer = self._consumer or self._subscribe()
        self._raise_error(consumer)
        self._commit()
        first = self._first(consumer, wait_s)
        found = [] if first is None else [first, *consumer.consume(limit - 1, 0)]
        good = [one for one in found if one.error() is None]
        bad = [one.error() for one in found if one.error() is not None]
        if bad:
            self._error = bad[-1]
        if bad and not good:
            self._raise_error(consumer)
        return [StreamMessage(one.value() or b"", f"{one.partition()}/{one.offset()}") for one in good]

    def _first(self, consumer: KafkaConsumer, wait_s: float) -> Any:
        """Return the first message that comes; a new member waits first until the group has given it partitions."""
        until_s = time.monotonic() + JOIN_TIMEOUT_S
        while not self._has_joined and self._error is None and time.monotonic() < until_s:
            if (message := consumer.poll(0.1)) is not None:
                return message
        self._has_joined = True
        return consumer.poll(wait_s)

    def _subscribe(self) -> KafkaConsumer:
        self._has_joined, self._has_lost, self._error = False, False, None
        self._kept.clear()
        consumer = KafkaConsumer(
            {
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "cooperative-sticky",
                "queued.max.messages.kbytes": QUEUED_KIB_MAX,
                "client.id": "assent",
                **self._settings.kafka_config,
                "bootstrap.servers": self._settings.kafka_servers,
                "group.id": self._settings.group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "error_cb": self._on_error,
                "logger": _log,
                "log_level": 2,  # what goes wrong is raised by what is asked of it
            }
        )
        consumer.subscribe(
            [self._source.stream],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        return consumer

    def _on_assign(self, consumer: KafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        self._has_joined = True

    def _on_revoke(self, consumer: KafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Commit what is kept before others read on from there."""
        with suppress(KafkaException):
            self._commit()
        self._on_lost(consumer, partitions)

    def _on_lost(self, consumer: KafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._kept.pop(each.partition, None)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in AWAY:
            self._error = error

    def _raise_error(self, consumer: KafkaConsumer) -> None:
        """Raise what the brokers said last, unless they say otherwise when they are asked."""
        error = self._error
        if error is None:
            return
        if error.fatal():
            self._close()
            raise KafkaException(error)
        topic = consumer.list_topics(self._source.stream, timeout=TIMEOUT_S).topics[self._source.stream]
        if topic.error is not None:
            raise KafkaException(topic.error)
        self._error = None

    def _commit(self) -> None:
        """Commit what is kept, of partitions that it still has; after an error, the next read tries again."""
        if self._consumer is None or not self._kept:
            return
        mine = {each.partition for each in self._consumer.assignment()}
        offsets = [
            TopicPartition(self._source.stream, partition, offset)
            for partition, offset in self._kept.items()
            if partition in mine
        ]
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False) if offsets else []
        except KafkaException as error:
            if error.args[0].code() not in REBALANCING:
                raise
            return  # it is committed when the group has settled, or read again by others
        for each in done:
            if each.error is None:
                self._kept.pop(each.partition, None)
            elif each.error.code() not in REBALANCING:
                raise KafkaException(each.error)

    def _lag(self) -> int | None:
        if self._consumer is None:
            return None
        name = self._source.stream
        topic = self._consumer.list_topics(name, timeout=TIMEOUT_S).topics[name]
        asked = [TopicPartition(name, partition) for partition in topic.partitions]
        lag = 0
        for each in self._consumer.committed(asked, timeout=TIMEOUT_S):
            low, high = self._consumer.get_watermark_offsets(TopicPartition(name, each.partition), TIMEOUT_S)
            lag += high - max(low, each.offset)
        return lag

    def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(KafkaException, RuntimeError):
                consumer.close()
