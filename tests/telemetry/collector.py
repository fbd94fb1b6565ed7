"""A collector of traces as operators have one: OTLP over HTTP, decoded by the protocol's own messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.receiver import Receiver, receiving


@dataclass(frozen=True)
class Collected:
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str


class Collector:
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.url = receiver.url

    @property
    def spans(self) -> list[Collected]:
        assert {received.path for received in self._receiver.received} <= {"/v1/traces"}
        return [span for received in self._receiver.received for span in _spans(received.body)]


def _spans(body: bytes) -> Iterator[Collected]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        named = {each.key: each.value.string_value for each in resource.resource.attributes}
        for found in resource.scope_spans:
            for span in found.spans:
                ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                yield Collected(named["service.name"], span.name, *ids)


@contextmanager
def collecting() -> Iterator[Collector]:
    with receiving() as receiver:
        yield Collector(receiver)
