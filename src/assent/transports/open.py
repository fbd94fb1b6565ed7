"""Opening streams: the client of a broker is imported here, when a stream of its kind is configured."""

import importlib
from typing import Final
from uuid import UUID

from assent.model.problems import Invalid, Problem
from assent.requests.messages import StreamSource, TransportKind
from assent.store.database import Database
from assent.transports.consumer import Consumer, Transport
from assent.transports.settings import StreamSettings

_CLASSES: Final[dict[TransportKind, tuple[str, str]]] = {
    "redis": ("assent.transports.redis", "RedisStream"),
    "kafka": ("assent.transports.kafka", "KafkaTopic"),
    "nats": ("assent.transports.nats", "JetStream"),
}


def open_consumer(
    source: StreamSource, settings: StreamSettings, database: Database, worker_id: UUID
) -> Consumer:
    """Return a consumer of a stream, which connects when it is first used; raise `Invalid` without its client."""
    return Consumer(transport_of(source, settings), source, database, worker_id)


def transport_of(source: StreamSource, settings: StreamSettings) -> Transport:
    """Return the connection to a stream's broker; raise `Invalid` where its client is not installed."""
    module, name = _CLASSES[source.transport]
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise Invalid([missing_client(source.transport, error)]) from error
    transport: Transport = getattr(found, name)(source, settings)
    return transport


def stream_problems(settings: StreamSettings) -> list[Problem]:
    """Return what keeps this program from reading its streams: clients that are missing, brokers that are not named."""
    try:
        settings.require_brokers()
        for source in settings.sources:
            transport_of(source, settings)
    except Invalid as error:
        return list(error.problems)
    return []


def missing_client(kind: TransportKind, error: ImportError) -> Problem:
    """Return the problem of a client that is not installed."""
    return StreamSettings.bad(
        "read", f"expected assent[{kind}] to be installed, for a stream of {kind}: {error}"
    )
