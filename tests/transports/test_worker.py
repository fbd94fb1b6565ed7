"""A worker as operators start it reads a stream: `assent worker`, with its variables, its log and its exit code."""

import asyncio
import json
import signal

import pytest

from assent.telemetry import hooks
from assent.telemetry.prometheus import PrometheusMetrics
from assent.worker.duty import WorkerContext
from assent.worker.supervisor import Supervisor, duties
from tests.processes.commands import run_command, start_command, worker
from tests.transports.brokers import Broker, new_source
from tests.transports.test_streams import WAIT_MAX_S, eventually, message, start
from tests.workers import ResultsWorker


def variables_of(broker: Broker, read: str) -> dict[str, str]:
    settings = broker.settings()
    given = {settings.variable(name): str(value) for name, value in settings if value}
    return given | {"ASSENT_STREAMS_READ": read}


async def test_worker_reads_a_stream_until_it_is_stopped(
    broker: Broker, results_worker: ResultsWorker
) -> None:
    (request_id,) = await start(results_worker)
    source = new_source(broker)
    await broker.publish(source.stream, [b"?", message(request_id, "k", 1)])
    variables = variables_of(broker, f"{source}=acme")
    async with worker(results_worker.database.url, "--only", "streams", **variables) as process:
        said = await process.line("message is dead")
        assert (said["org_id"], said["code"]) == ("acme", "UNREADABLE")
        assert said["origin"].startswith(f"{source}/")

        async def is_kept() -> bool:
            return len(await results_worker.deliveries()) == 1

        await eventually(is_kept)
        process.send(signal.SIGTERM)
        assert await process.ended() == 0


async def test_stream_whose_broker_is_away_holds_up_no_other(
    brokers, results_worker: ResultsWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (request_id,) = await start(results_worker)
    redis, source = brokers["redis"], new_source(brokers["redis"])
    await redis.publish(source.stream, [message(request_id, "k", 1)])
    monkeypatch.setattr(hooks, "metrics", metrics := PrometheusMetrics())
    settings = redis.settings().replace(read=f"nats:away=acme,{source}=acme", nats_url="nats://127.0.0.1:1")
    place = WorkerContext(results_worker.database, streams=settings)
    supervisor = Supervisor(place.database, duties(place, ["streams"]), place.options)
    running = asyncio.create_task(supervisor.run())

    async def is_kept() -> bool:
        return len(await results_worker.deliveries()) == 1

    def up(transport: str, stream: str) -> float | None:
        labels = {"transport": transport, "stream": stream}
        return metrics.registry.get_sample_value("assent_stream_up", labels)

    async def both_are_known() -> bool:
        return await is_kept() and up("nats", "away") is not None

    await eventually(both_are_known)
    supervisor.stop()
    async with asyncio.timeout(WAIT_MAX_S):
        assert await running
    assert (up("nats", "away"), up("redis", source.stream)) == (0, 1)


async def test_worker_without_the_place_of_its_broker_says_which_variable(
    results_worker: ResultsWorker,
) -> None:
    process = await start_command(
        results_worker.database.url,
        "worker",
        "--once",
        "--only",
        "streams",
        ASSENT_STREAMS_READ="kafka:a=acme",
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert b"ASSENT_STREAMS_KAFKA_SERVERS" in said


async def test_once_reads_what_is_there(brokers, results_worker: ResultsWorker, monkeypatch) -> None:
    (request_id,) = await start(results_worker, expects=3)
    redis, source = brokers["redis"], new_source(brokers["redis"])
    await redis.publish(source.stream, [message(request_id, f"{n}", n) for n in range(3)])
    for name, text in variables_of(redis, f"{source}=acme").items():
        monkeypatch.setenv(name, text)
    url = results_worker.database.url
    done = await asyncio.to_thread(run_command, "worker", "--once", "--only", "streams", "--json", url=url)
    assert json.loads(done.stdout)["streams"]["parts"] == {"accepted": 3}, done.stderr


async def test_doctor_says_which_broker_no_variable_names(results_worker: ResultsWorker, monkeypatch) -> None:
    monkeypatch.setenv("ASSENT_STREAMS_READ", "kafka:a=acme")
    done = await asyncio.to_thread(run_command, "doctor", "--json", url=results_worker.database.url)
    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "streams"]
    assert found["problem"].startswith("ASSENT_STREAMS_KAFKA_SERVERS: expected where the broker is")
    assert done.returncode == 1
