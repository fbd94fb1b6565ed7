"""Results that come over Redis, Kafka and NATS JetStream: at least once in, once applied, nothing stops the stream."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from assent.app import App
from assent.requests.messages import MESSAGE_BYTES_MAX, StreamSource
from assent.store.database import Database
from assent.store.errors import OutcomeUnknown, StoreError
from assent.telemetry import hooks
from assent.telemetry.prometheus import PrometheusMetrics
from assent.transports.consumer import Consumer, StreamUnreachable
from assent.transports.open import open_consumer
from assent.worker.duty import WorkerContext
from assent.worker.results import Results
from tests.faults.proxy import COMMIT, Fault, Proxy
from tests.postgres import SETTINGS
from tests.statements import StatementCounter
from tests.transports.brokers import Broker, KafkaBroker, new_source, python
from tests.workers import ResultsWorker, run_until_done
from tests.world import ANN, OPS, ORG, OTHER_ORG, drain, fetch, publish_vendor, rows

WAIT_MAX_S = 30

EMPTY_READS = 2
"""So many reads without a message mean that a stream has been read."""

DEAD = """
SELECT m.transport, m.stream, m.position, m.size, j.status, j.lane, j.resolved, a.code, a.error, a.output, j.id
  FROM assent.dead_messages m JOIN assent.jobs j USING (org_id, id)
  JOIN assent.job_attempts a ON a.org_id = j.org_id AND a.job_id = j.id AND a.attempt = j.attempts
 WHERE m.org_id <> 'aatwin' ORDER BY a.code, m.position
"""


def message(request_id: object, key: str, *cargo: object, **rest: Any) -> bytes:
    items = [{"cargo": f"external://vault/{one}"} for one in cargo]
    return json.dumps({"request_id": str(request_id), "key": key, "items": items, **rest}).encode()


@asynccontextmanager
async def consumer_of(
    source: StreamSource, broker: Broker, database: Database, **changes: Any
) -> AsyncIterator[Consumer]:
    consumer = open_consumer(source, broker.settings().replace(**changes), database, uuid4())
    try:
        yield consumer
    finally:
        await consumer.close()


async def read(consumer: Consumer, limit: int = 200) -> Counter[str]:
    """Read until nothing more comes; the outcomes of the messages."""
    counts: Counter[str] = Counter()
    empty = 0
    while empty < EMPTY_READS or await consumer.look() != 0:
        found = await consumer.consume(limit, 0.1)
        counts.update(found)
        empty = 0 if found else empty + 1
    return counts


async def eventually(attempt: Callable[[], Awaitable[bool]]) -> None:
    """Try until it is so; a broker that comes back takes a moment."""
    async with asyncio.timeout(WAIT_MAX_S):
        while not await attempt():  # noqa: ASYNC110 - a broker sets no event of ours
            await asyncio.sleep(0.05)


async def start(worker: ResultsWorker, number: int = 1, **rest: Any) -> list[UUID]:
    """Start instances that ask a vendor; the ids of their requests."""
    await publish_vendor(worker.database, **rest)
    await worker.runtime.org(ORG, ANN).instances.start_many(
        "kyc", [{"client": f"c-{n}"} for n in range(number)]
    )
    await drain(worker.runtime)
    return [request["id"] for request in await worker.requests()]


async def test_result_advances_its_instance_and_says_where_it_was_read(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    (request_id,) = await start(results_worker, expects=2)
    source = new_source(broker)
    bodies = [message(request_id, "b", 2), message(request_id, "a", 1), message(request_id, "b", 2)]
    await broker.publish(source.stream, bodies)
    async with consumer_of(source, broker, results_worker.database) as consumer:
        assert await read(consumer) == {"accepted": 2, "repeated": 1}
        assert await consumer.look() == 0
    await results_worker.work()
    assert await results_worker.ended_at() == "end"
    deliveries = await results_worker.deliveries()
    assert {(one["source"], one["pushed_by"]) for one in deliveries} == {(broker.kind, None)}
    assert all(one["origin"].startswith(f"{source}/") for one in deliveries)


POISON: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "UNREADABLE"),
    "nothing": (b"", "UNREADABLE"),
    "no UTF-8": (b'{"request_id": "\xff"}', "UNREADABLE"),
    "a lone surrogate": (b'{"request_id": "\\ud800"}', "UNREADABLE"),
    "deep": (b"[" * 100_000, "UNREADABLE"),
    "no object": (b"[1]", "UNREADABLE"),
    "no request": (message("x", "k", 1), "UNREADABLE"),
    "unknown request": (message(uuid4(), "k", 1), "NOT_FOUND"),
    "wrong status": (message("$REQUEST", "k1", 1, status="done"), "UNREADABLE"),
    "no items": (message("$REQUEST", "k2"), "UNREADABLE"),
    "no key": (message("$REQUEST", "", 1), "UNREADABLE"),
    "NUL in the key": (message("$REQUEST", "a\0b", 1), "UNREADABLE"),
    "NUL in the error": (message("$REQUEST", "k3", status="failed", error="\0"), "UNREADABLE"),
    "an org of its own": (message("$REQUEST", "k4", 1, org_id=OTHER_ORG), "UNREADABLE"),
    "another org's request": (message("$OTHER", "k", 1), "NOT_FOUND"),
    "a request that the stream may not": (message("$APART", "k", 1), "REQUEST_NOT_OF_STREAM"),
    "a request whose results are signed": (message("$SIGNED", "k", 1), "SIGNATURE_MISSING"),
    "unknown version": (
        json.dumps(
            {"request_id": "$REQUEST", "key": "v", "items": [{"cargo": f"version://assent/{uuid4()}"}]}
        ).encode(),
        "UNKNOWN_VERSION",
    ),
    "10 MB": (message("$REQUEST", "k5", 1, error="x" * 10_000_000), "TOO_LARGE"),
}


async def test_message_that_cannot_be_kept_is_a_dead_letter_and_the_stream_goes_on(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    database = results_worker.database
    (mine,) = await start(results_worker, expects=2)
    await publish_vendor(database, "apart")
    await publish_vendor(database, "kyc.signed")
    await publish_vendor(database, org=OTHER_ORG)
    await results_worker.start("apart")
    await results_worker.start("kyc.signed")
    await results_worker.start(org=OTHER_ORG)
    names = {
        request["name"]: request["id"]
        for request in await results_worker.requests()
        if request["org_id"] == ORG
    }
    (other,) = [one["id"] for one in await results_worker.requests() if one["org_id"] == OTHER_ORG]
    runtime = App().runtime(database)
    await runtime.org(ORG).event_sources.create("vendor", key_prefix="result:kyc.signed")
    ids = {
        "$REQUEST": mine,
        "$OTHER": other,
        "$APART": names["apart.vendor"],
        "$SIGNED": names["kyc.signed.vendor"],
    }

    def filled(body: bytes) -> bytes:
        for mark, found in ids.items():
            body = body.replace(mark.encode(), str(found).encode())
        return body

    source = new_source(broker, names="kyc.")
    good = [message(mine, "a", 1), message(mine, "b", 2)]
    bodies = [good[0], *(filled(body) for body, _ in POISON.values()), good[1]]
    await broker.publish(source.stream, bodies)
    async with consumer_of(source, broker, database) as consumer:
        seen: list[str] = []
        await eventually(lambda: _has_read(consumer, len(bodies), seen))
        assert Counter(seen) == {"accepted": 2, "dead": len(POISON)}
        assert await read(consumer) == {}
        assert await consumer.look() == 0
    dead = await fetch(database, DEAD)
    assert Counter(row["code"] for row in dead) == Counter(code for _, code in POISON.values())
    for row in dead:
        origin = f"{source}/{row['position']}"
        assert (row["status"], row["lane"], row["output"]["origin"]) == ("dead", str(source), origin)
        assert origin in row["error"]
    (large,) = [row for row in dead if row["code"] == "TOO_LARGE"]
    assert large["size"] > MESSAGE_BYTES_MAX
    letters = await runtime.org(ORG).dead_letters.list("result")
    assert {letter.id for letter in letters} == {row["id"] for row in dead}
    await results_worker.work()
    assert [one["status"] for one in await results_worker.requests() if one["id"] == mine] == ["completed"]


async def test_message_that_is_read_again_is_one_dead_letter(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    source = new_source(broker)
    await broker.publish(source.stream, [b"{"] * 2)
    async with consumer_of(source, broker, results_worker.database) as consumer:
        transport = consumer._transport
        found = await transport.fetch(1, WAIT_MAX_S)
        for _ in range(2):
            assert await consumer._keep(found) == ["UNREADABLE"]
    async with consumer_of(source, broker, results_worker.database) as consumer:
        seen: list[str] = []
        await eventually(lambda: _has_read(consumer, 2, seen))
    # The other message has the same body, and is another.
    assert len(await fetch(results_worker.database, DEAD)) == 2


async def _has_read(consumer: Consumer, number: int, seen: list[str]) -> bool:
    seen += (await consumer.consume(10, 0.2)).elements()
    return len(seen) >= number


async def test_dead_letter_is_kept_once_its_cause_is_gone(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    database = results_worker.database
    (request_id,) = await start(results_worker)
    runtime, source = results_worker.runtime.org(ORG), new_source(broker)
    document = await runtime.documents.create("passport", "c-1")
    version = uuid4()
    cargo = [{"cargo": f"version://assent/{version}"}]
    body = json.dumps({"request_id": str(request_id), "key": "k", "items": cargo}).encode()
    await broker.publish(source.stream, [body, b"{"])
    async with consumer_of(source, broker, database) as consumer:
        assert await read(consumer) == {"dead": 2}
    unknown, unreadable = sorted(await fetch(database, DEAD), key=lambda row: row["code"])
    assert (unknown["code"], unreadable["code"]) == ("UNKNOWN_VERSION", "UNREADABLE")
    async with database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.document_versions (org_id, id, document_id, version_no, content_type, structured_data,"
            " created_by) VALUES ($1, $2, $3, 1, 'application/json', '{}', 'ann')",
            *(ORG, version, document.id),
        )
    for row in (unknown, unreadable):
        await runtime.dead_letters.retry(row["id"])
    done = await run_until_done(Results(WorkerContext(database, runtime=results_worker.runtime)))
    assert done.parts == {"dead": 1, "kept": 1, "processed": 1}
    await drain(results_worker.runtime)
    assert await results_worker.ended_at() == "end"
    (left,) = [row for row in await fetch(database, DEAD) if row["status"] == "dead"]
    assert left["id"] == unreadable["id"]
    await results_worker.runtime.org(ORG, OPS).dead_letters.discard(left["id"], "the sender is unknown")


async def test_thousand_mixed_messages_count_each_cargo_once_and_advance_each_instance_once(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    """Repeated, out of order, with and without what cannot be kept, read by two consumers at once."""
    database, choose = results_worker.database, random.Random(16)  # noqa: S311 - the same each time
    ids = await start(results_worker, 60, expects=4)
    sent = [message(one, f"k{n}", *range(n, n + choose.randint(1, 3))) for one in ids for n in (0, 2, 4)]
    sent += [message(uuid4(), "k", 1) for _ in range(10)] + [b"?"] * 10
    sent = [*sent, *choose.choices(sent, k=1_000 - len(sent))]
    choose.shuffle(sent)
    source = new_source(broker)
    await broker.publish(source.stream, sent)
    async with consumer_of(source, broker, database) as one, consumer_of(source, broker, database) as two:
        counts = sum(await asyncio.gather(read(one, 100), read(two, 100)), Counter())
    distinct: dict[UUID, set[str]] = {}
    for body in set(sent):
        if body != b"?":
            data = json.loads(body)
            distinct.setdefault(UUID(data["request_id"]), set()).update(
                item["cargo"] for item in data["items"]
            )
    assert counts.total() >= 1_000
    assert counts["accepted"] == len(ids) * 3
    await results_worker.work()
    requests = {request["id"]: request for request in await results_worker.requests()}
    items = Counter(item["request_id"] for item in await results_worker.items())
    for request_id in ids:
        assert requests[request_id]["status"] == "completed"
        assert requests[request_id]["received"] == items[request_id] <= len(distinct[request_id])
        assert requests[request_id]["received"] >= 4
    assert {one["status"] for one in await rows(database, "workflow_instances")} == {"completed"}
    steps = Counter(one["instance_id"] for one in await rows(database, "workflow_step_executions"))
    assert len(set(steps.values())) == 1
    unknown = sum(1 for body in sent if body != b"?" and UUID(json.loads(body)["request_id"]) not in requests)
    assert len(await fetch(database, DEAD)) == unknown + sent.count(b"?")


async def test_number_of_statements_does_not_depend_on_the_batch(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    (request_id,) = await start(results_worker, expects=500)
    source, counter, seen = new_source(broker), StatementCounter(), []
    async with consumer_of(source, broker, results_worker.database) as consumer:
        for number in (1, 2, 150):  # the first has asyncpg look types up
            bodies = [message(request_id, f"{number}-{n}", n) for n in range(number)]
            await broker.publish(source.stream, [*bodies, *([b"?"] * number)])
            batch = []
            async with asyncio.timeout(WAIT_MAX_S):
                while len(batch) < 2 * number:
                    batch += await consumer._transport.fetch(2 * number, 0.2)
            consumer._held = batch
            counter.clear()
            with results_worker.database.observe(counter):
                assert (await consumer.consume(1, 0.2)).total() == 2 * number
            seen.append(counter.names)
    assert seen[1] == seen[2]
    assert len(seen[1]) <= 5


async def test_reader_that_is_killed_at_any_point_loses_nothing_and_counts_nothing_twice(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    (request_id,) = await start(results_worker, expects=20)
    source, settings = new_source(broker), broker.settings()
    if isinstance(broker, KafkaBroker):
        # A group of members that die is slow to give them several partitions.
        await broker.make_topic(source.stream, 1)
        settings = settings.replace(kafka_properties="session.timeout.ms=400;heartbeat.interval.ms=100")
    given = {
        name: getattr(settings, name)
        for name in ("redis_url", "kafka_servers", "kafka_properties", "nats_url")
    }
    wish = {
        "url": results_worker.database.url,
        "now": results_worker.clock.now().isoformat(),
        "source": [source.transport, source.stream, source.org_id],
        "settings": {**given, "wait_ms": 200, "claim_after_ms": 300},
    }
    await broker.publish(source.stream, [*(message(request_id, f"{n}", n) for n in range(5)), b"?", b"!"])
    killed = 0
    with python("tests.transports.dying") as readers:
        while "killed" in (said := await asyncio.to_thread(_ask, readers, wish | {"kill_at": killed + 1})):
            killed += 1
    # BEGIN, what is kept, its time, what is dead, COMMIT; then the moments before and after the acknowledgement.
    assert killed >= 7, said
    assert len(await fetch(results_worker.database, DEAD)) == 2
    await results_worker.work()
    (request,) = await results_worker.requests()
    assert request["received"] == len(await results_worker.items()) == 5


def _ask(readers: Any, wish: dict[str, Any]) -> dict[str, Any]:
    readers.stdin.write(json.dumps(wish) + "\n")
    readers.stdin.flush()
    said: dict[str, Any] = json.loads(readers.stdout.readline())
    return said


async def test_broker_that_is_killed_and_comes_back_loses_nothing(
    broker: Broker, results_worker: ResultsWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (request_id,) = await start(results_worker, expects=30)
    source = new_source(broker)
    metrics = PrometheusMetrics()
    monkeypatch.setattr(hooks, "metrics", metrics)
    labels = {"transport": source.transport, "stream": source.stream}
    await broker.publish(source.stream, [message(request_id, f"a{n}", n) for n in range(20)])
    async with consumer_of(source, broker, results_worker.database) as consumer:
        seen: list[str] = []
        await eventually(lambda: _has_read(consumer, 5, seen))
        # A batch that is read and not kept when the broker goes.
        consumer._held = consumer._held or await consumer._transport.fetch(5, 0.2)
        await broker.stop()
        with pytest.raises(StreamUnreachable, match=f"{source} cannot be read"):
            await _consume_for_ever(consumer)
        assert metrics.registry.get_sample_value("assent_stream_up", labels) == 0
        await broker.start()
        await broker.publish(source.stream, [message(request_id, f"b{n}", 20 + n) for n in range(10)])

        async def is_all_there() -> bool:
            try:
                await consumer.consume(50, 0.2)
            except StreamUnreachable:
                return False
            return len(await results_worker.deliveries()) == 30

        await eventually(is_all_there)
        assert metrics.registry.get_sample_value("assent_stream_up", labels) == 1

        async def is_read() -> bool:
            await consumer.consume(50, 0.2)
            return await consumer.look() == 0

        await eventually(is_read)
        assert metrics.registry.get_sample_value("assent_stream_lag", labels) == 0
    await results_worker.work()
    assert (await results_worker.request())["status"] == "completed"


async def _consume_for_ever(consumer: Consumer) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            await consumer.consume(5, 0.2)


async def test_nothing_more_is_read_while_the_database_is_away(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    (request_id,) = await start(results_worker, expects=6)
    source = new_source(broker)
    await broker.publish(source.stream, [message(request_id, f"{n}", n) for n in range(6)])
    async with (
        Proxy.before(results_worker.database.url) as proxy,
        behind(proxy, results_worker) as database,
        consumer_of(source, broker, database) as consumer,
    ):
        await eventually(lambda: _has_held(consumer))
        held = list(consumer._held)
        proxy.refuse()
        proxy.cut()
        for _ in range(2):
            with pytest.raises((OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError)):
                await consumer.consume(2, 0.2)
            assert consumer._held == held
        proxy.admit()
        assert (await read(consumer))["accepted"] == 6
        assert await consumer.look() == 0


async def _has_held(consumer: Consumer) -> bool:
    consumer._held = await consumer._transport.fetch(2, 0.2)
    return bool(consumer._held)


@asynccontextmanager
async def behind(proxy: Proxy, worker: ResultsWorker) -> AsyncIterator[Database]:
    database = await Database.open(proxy.url, settings=SETTINGS, clock=worker.clock)
    try:
        yield database
    finally:
        proxy.disarm()
        await database.close()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_batch_whose_commit_is_unknown_is_not_acknowledged_and_kept_again(
    broker: Broker, results_worker: ResultsWorker, moment: Any
) -> None:
    (request_id,) = await start(results_worker, expects=2)
    source = new_source(broker)
    bodies: Sequence[bytes] = [message(request_id, "a", 1), b"?", message(request_id, "b", 2)]
    await broker.publish(source.stream, bodies)
    async with (
        Proxy.before(results_worker.database.url) as proxy,
        behind(proxy, results_worker) as database,
        consumer_of(source, broker, database) as consumer,
    ):
        batch: list[Any] = []
        async with asyncio.timeout(WAIT_MAX_S):
            while len(batch) < len(bodies):
                batch += await consumer._transport.fetch(10, 0.2)
        consumer._held = batch
        fault = proxy.arm(Fault(COMMIT, nth=1, moment=moment, action="cut"))
        with pytest.raises(OutcomeUnknown):
            await consumer.consume(10, 0.2)
        assert fault.struck
        assert await consumer.look() == len(bodies)
        counts = await consumer.consume(10, 0.2)
        assert counts == ({"repeated": 2, "dead": 1} if moment == "after" else {"accepted": 2, "dead": 1})
        await eventually(lambda: _lags(consumer, 0))
    assert len(await fetch(results_worker.database, DEAD)) == 1
    await results_worker.work()
    assert await results_worker.ended_at() == "end"


async def _lags(consumer: Consumer, number: int) -> bool:
    return await consumer.look() == number
