"""Settings of streams: which are read, for which org, and what is refused before anything is read."""

import subprocess
import sys

import pytest

from assent.model.problems import Invalid
from assent.requests.messages import StreamSource
from assent.store.database import Database
from assent.transports.open import transport_of
from assent.transports.settings import StreamSettings
from assent.worker.duty import WorkerContext
from assent.worker.streams import Streams
from assent.worker.supervisor import duties

SECRET = "hunter2-of-the-broker"


def test_streams_are_read_with_their_org_and_the_names_of_their_requests() -> None:
    read = "redis:task_result_stream=acme, kafka:workflow.task-results=acme/kyc.,nats:RESULTS=globex:eu"
    assert StreamSettings.defaults(read=read).sources == [
        StreamSource("redis", "task_result_stream", "acme"),
        StreamSource("kafka", "workflow.task-results", "acme", "kyc."),
        StreamSource("nats", "RESULTS", "globex:eu"),
    ]


@pytest.mark.parametrize(
    "read",
    [
        "redis",
        "redis:stream",
        "rabbit:stream=acme",
        "redis:=acme",
        "redis:stream=",
        "kafka:a=acme,kafka:a=globex",
    ],
)
def test_stream_that_cannot_be_read_so_is_refused(read: str) -> None:
    with pytest.raises(Invalid, match="ASSENT_STREAMS_READ"):
        StreamSettings.defaults(read=read)


def test_stream_needs_the_place_of_its_broker() -> None:
    settings = StreamSettings.defaults(read="redis:a=acme,kafka:b=acme,nats:c=acme", redis_url="redis://r")
    with pytest.raises(Invalid) as caught:
        settings.require_brokers()
    assert [problem.path[0] for problem in caught.value.problems] == [
        "ASSENT_STREAMS_KAFKA_SERVERS",
        "ASSENT_STREAMS_NATS_URL",
    ]


@pytest.mark.parametrize(
    "text", ["no equals sign " + SECRET, "enable.auto.commit=true;sasl.password=" + SECRET]
)
def test_property_that_is_refused_shows_no_value(text: str) -> None:
    with pytest.raises(Invalid, match="ASSENT_STREAMS_KAFKA_PROPERTIES") as caught:
        StreamSettings.defaults(kafka_properties=text)
    assert SECRET not in str(caught.value)


def test_properties_come_in_lines_or_with_semicolons() -> None:
    settings = StreamSettings.defaults(
        kafka_properties="# ours\nsecurity.protocol=SSL\n;ssl.ca.location=/ca.pem"
    )
    assert settings.kafka_config == {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}


async def test_each_stream_has_a_loop_of_its_own(database: Database) -> None:
    settings = StreamSettings.defaults(
        read="redis:a=acme,kafka:b=acme", redis_url="redis://127.0.0.1:1", kafka_servers="127.0.0.1:1"
    )
    found = duties(WorkerContext(database, streams=settings), ["streams"])
    assert [duty._consumer.source.stream for duty in found if isinstance(duty, Streams)] == ["a", "b"]
    (idle,) = duties(WorkerContext(database), ["streams"])
    assert (await idle.run_once()).count == 0


@pytest.mark.parametrize("kind", ["redis", "kafka", "nats"])
def test_client_that_is_not_installed_is_named_with_its_extra(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, f"assent.transports.{kind}", None)
    with pytest.raises(Invalid, match=rf"assent\[{kind}\]"):
        transport_of(StreamSource(kind, "a", "acme"), StreamSettings.defaults())


def test_no_client_is_loaded_before_a_stream_is_opened() -> None:
    code = (
        "import sys, assent, assent.cli.main, assent.worker.supervisor, assent.running\n"
        "print(sorted({'redis', 'confluent_kafka', 'nats'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
