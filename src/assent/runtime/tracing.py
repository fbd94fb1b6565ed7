"""The spans of a batch: of each event and instance in its own trace, and of the batch itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from assent.model.mutation import Refused
from assent.runtime.batch import BatchItem
from assent.telemetry import Span, Tracer, is_sampled, is_traceparent


@dataclass(slots=True)
class BatchSpans:
    """The spans of one instance in one batch."""

    events: list[Span]
    advance: Span | None
    """None where the events are traced, and the command that drains them is not."""
    nodes: dict[UUID, Span] = field(default_factory=dict)
    """Those that are open."""

    @property
    def open(self) -> list[Span]:
        return [*self.nodes.values(), *([self.advance] if self.advance else []), *self.events]

    def end(self) -> None:
        for opened in self.open:
            opened.end()

    def fail(self, error: BaseException) -> None:
        for opened in self.open:
            opened.note(rejection=error.code) if isinstance(error, Refused) else opened.fail(error)


def may_begin(trace: str | None) -> bool:
    """Whether an event gets a span: its trace is sampled, or it has none and the sampler is to be asked."""
    return is_sampled(trace) or not is_traceparent(trace)


def start_batch(tracer: Tracer, works: Sequence[BatchItem]) -> Span:
    traces = {
        trace for work in works for event in work.events.values() if is_sampled(trace := event["trace_id"])
    }
    events = sum(len(work.events) for work in works)
    told = {"instances": len(works), "events": events}
    return tracer.start("batch", links=sorted(traces), attributes=told)


def start_event(tracer: Tracer, work: BatchItem, event: Any) -> Span:
    told = {
        "org_id": work.org_id,
        "instance_id": work.instance_id,
        "event_id": event["id"],
        "event_type": event["event_type"],
        "attempts": event["attempts"],
    }
    return tracer.start(
        f"event {event['event_type']}", parent=event["trace_id"], kind="consumer", attributes=told
    )
