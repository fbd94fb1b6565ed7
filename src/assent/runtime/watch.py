"""Looking on while a batch is advanced: spans for those whose traces are sampled, metrics, and lines about incidents.

Each instance of a batch goes on in the trace that brought its event: event → advance → nodes. The batch itself is a
span of its own, and they are linked. What is seen counts when the batch has committed. Of one that was rolled back
nothing is reported, for it is tried again at once, in halves; the failure of an instance by itself is.
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from assent.engine.inputs import Input
from assent.engine.instance import Step
from assent.engine.nodes.base import Need
from assent.engine.visit import Visit
from assent.jobs.dead_letters import log_dead
from assent.model.mutation import Refused, Rejection
from assent.runtime.batch import BatchItem, Execution
from assent.store.rows import Row
from assent.telemetry import Metrics, Span, Tracer, hooks, is_sampled, is_traceparent, scope, span

_log = logging.getLogger(__name__)

Perform = Callable[[Execution, Visit], Need | None]


class Watch:
    """What is seen of one batch; every attempt begins with nothing."""

    def __init__(self, tracer: Tracer | None, metrics: Metrics | None, *, inline: bool) -> None:
        self._tracer = tracer
        self._metrics = metrics
        self._inline = inline
        self._batch: Span | None = None
        self._traced: dict[UUID, BatchSpans] = {}
        self._entered: dict[UUID, float] = {}
        self._took: defaultdict[str, list[float]] = defaultdict(list)
        self._asked: dict[UUID, str] = {}
        self._jobs: Sequence[Execution] = ()
        self._dead: list[tuple[Row, str]] = []

    @property
    def observes(self) -> bool:
        """Whether steps are timed; incidents are logged in any case."""
        return self._tracer is not None or self._metrics is not None

    def begin(self, works: Sequence[BatchItem]) -> None:
        """Note that the works are claimed; where they are traced, they go on from here."""
        self._batch, self._traced, self._entered, self._jobs = None, {}, {}, ()
        self._took.clear()
        self._dead.clear()
        if self._tracer is None:
            return
        if works and not self._inline:
            self._batch = start_batch(self._tracer, works)
        for work in works:
            self._trace(self._tracer, work)

    def loaded(self, jobs: Sequence[Execution]) -> None:
        self._jobs = jobs
        if self._metrics is not None:
            self._asked = {
                request.id: request.status for job in jobs for request in job.run.world.requests.values()
            }

    def around(self, perform: Perform) -> Perform:
        """Return a function that does the same and measures how long it takes."""

        def performing(job: Execution, visit: Visit) -> Need | None:
            self._enter(job, visit)
            need = perform(job, visit)
            if need is None:
                self._leave(job, visit)
            return need

        return performing

    def answered(self, needs: Sequence[tuple[Execution, Visit, Need]]) -> None:
        for job, visit, _ in needs if self.observes else ():
            self._leave(job, visit)

    def died(self, event: Row, error: str) -> None:
        """Note that an event is dead."""
        self._dead.append((event, error))

    def committed(self, now: datetime) -> None:
        log_incidents(self._jobs)
        log_timeouts(self._jobs)
        for event, error in self._dead:
            log_dead("event", event, event["event_type"], "EVENT_FAILED", error)
        for job in self._jobs:
            traced = self._traced.get(job.work.instance_id)
            if traced is not None and traced.advance is not None:
                traced.advance.note(status=job.run.instance.status, steps=len(job.run.steps))
        for traced in self._traced.values():
            traced.end()
        if self._batch is not None:
            self._batch.end()
        if self._metrics is not None:
            self._count(self._metrics, now)

    def failed(self, error: BaseException) -> None:
        for traced in self._traced.values():
            traced.fail(error)
            traced.end()

    def _trace(self, tracer: Tracer, work: BatchItem) -> None:
        events = [
            start_event(tracer, work, event) for event in work.events.values() if may_begin(event["trace_id"])
        ]
        parent = work.trace if self._inline or not events else events[0].trace
        advance = self._start_advance(tracer, work, parent, events) if is_sampled(parent) else None
        work.trace = advance.trace if advance is not None else parent
        if events or advance is not None:
            self._traced[work.instance_id] = BatchSpans(events, advance)

    def _start_advance(
        self, tracer: Tracer, work: BatchItem, parent: str | None, events: Sequence[Span]
    ) -> Span:
        others = [found.trace for found in (*events, self._batch) if found is not None]
        links = [trace for trace in others if trace != parent]
        attributes = {"org_id": work.org_id, "instance_id": work.instance_id}
        return tracer.start("advance", parent=parent, links=links, attributes=attributes)

    def _enter(self, job: Execution, visit: Visit) -> None:
        traced = self._traced.get(job.work.instance_id)
        if traced is not None and traced.advance is not None and self._tracer is not None:
            kind = visit.node.kind.value
            attributes = {"node_id": visit.node.id, "node_kind": kind, "instance_id": job.work.instance_id}
            opened = self._tracer.start(f"node {kind}", parent=traced.advance.trace, attributes=attributes)
            traced.nodes[visit.step_id] = opened
            job.traces[visit.step_id] = opened.trace
        self._entered[visit.step_id] = time.perf_counter()

    def _leave(self, job: Execution, visit: Visit) -> None:
        took_s = time.perf_counter() - self._entered.pop(visit.step_id)
        if self._metrics is not None:
            self._took[visit.node.kind.value].append(took_s)
        traced = self._traced.get(job.work.instance_id)
        opened = traced.nodes.pop(visit.step_id, None) if traced is not None else None
        if opened is not None:
            opened.note(status=job.run.steps[-1].status if job.run.steps else None)
            opened.end()

    def _count(self, metrics: Metrics, now: datetime) -> None:
        for kind, took in self._took.items():
            metrics.step_took(kind, took)
        steps = [step for job in self._jobs for step in job.run.steps]
        for (kind, status), number in Counter((step.node_type, step.status) for step in steps).items():
            metrics.steps(kind, status, number)
        for step in steps:
            if not step.is_new and step.completed_at is not None:
                metrics.step_waited(step.node_type, (step.completed_at - step.created_at).total_seconds())
        for job in self._jobs:
            self._count_events(metrics, job, now)
            self._count_approvals(metrics, job)
            for _ in timeouts_of(job):
                metrics.timeout(job.definition.workflow.key)

    def _count_events(self, metrics: Metrics, job: Execution, now: datetime) -> None:
        for given, outcome in job.run.outcomes:
            if (event := job.work.events.get(given.id)) is not None:
                became = "ignored" if isinstance(outcome, Rejection) else outcome
                metrics.event(event["event_type"], became, (now - event["created_at"]).total_seconds())

    def _count_approvals(self, metrics: Metrics, job: Execution) -> None:
        for request in job.run.world.requests.values():
            before = self._asked.get(request.id)
            if before is None:
                metrics.approval("asked")
            if request.status not in ("pending", before):
                metrics.approval(request.status)


@contextmanager
def watching(now: Callable[[], datetime], *, inline: bool = False, alone: bool = False) -> Iterator[Watch]:
    """Yield a watch from the first attempt of a transaction to its commit.

    A command is `inline`. What is tried by itself, command or event, is `alone`: what fails then is its own failure.
    """
    watch = Watch(hooks.tracer, hooks.metrics, inline=inline)
    try:
        yield watch
    except BaseException as error:
        if alone:
            watch.failed(error)
        raise
    try:
        watch.committed(now())
    except Exception:
        # The batch is committed: an error here would be taken for its failure, and what is done would be done again.
        _log.exception("a committed batch could not be counted")


def log_incidents(jobs: Iterable[Execution]) -> None:
    """Write one line for each instance that an error has just paused."""
    for job in jobs:
        instance, incident = job.run.instance, job.run.instance.incident or {}
        paused_now = any(step.node_id == "ctl:pause" for step in job.run.steps)
        if instance.status == "paused" and paused_now and incident.get("code") != "PAUSED":
            fields = {
                "org_id": instance.org_id,
                "instance_id": str(instance.id),
                "code": incident.get("code"),
                "definition": job.definition.workflow.key,
                "definition_version": job.definition.version,
                "node": incident.get("node"),
                "error": incident.get("message"),
            }
            _log.warning("instance is paused by an incident", extra=fields)


def timeouts_of(job: Execution) -> list[Step]:
    """Return the steps by which the time of a whole workflow was over: it failed, or moved to where it says."""
    return [
        step
        for step in job.run.steps
        if step.node_id == "ctl:timeout" or (step.node_id == "ctl:move" and step.output.get("timed_out"))
    ]


def log_timeouts(jobs: Iterable[Execution]) -> None:
    """Write one line for each workflow whose time was over."""
    for job in jobs:
        for step in timeouts_of(job):
            fields = {
                "org_id": step.org_id,
                "instance_id": str(step.instance_id),
                "definition": job.definition.workflow.key,
                "definition_version": job.definition.version,
                "to": step.output.get("to"),
            }
            _log.warning("the time of a workflow is over", extra=fields)


@contextmanager
def commanding(org_id: str, instance_id: UUID | None, given: Input) -> Iterator[None]:
    """Open a span around the transaction of a command, and say in log lines what it is about."""
    name = type(given).__name__.lower()
    with (
        scope(org_id=org_id, instance_id=instance_id),
        span(f"command {name}", attributes={"org_id": org_id, "instance_id": instance_id}),
    ):
        yield


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
    """Return whether an event gets a span: its trace is sampled, or it has none and the sampler is to be asked."""
    return is_sampled(trace) or not is_traceparent(trace)


def start_batch(tracer: Tracer, works: Sequence[BatchItem]) -> Span:
    traces = {
        trace for work in works for event in work.events.values() if is_sampled(trace := event["trace_id"])
    }
    events = sum(len(work.events) for work in works)
    attributes = {"instances": len(works), "events": events}
    return tracer.start("batch", links=sorted(traces), attributes=attributes)


def start_event(tracer: Tracer, work: BatchItem, event: Any) -> Span:
    attributes = {
        "org_id": work.org_id,
        "instance_id": work.instance_id,
        "event_id": event["id"],
        "event_type": event["event_type"],
        "attempts": event["attempts"],
    }
    return tracer.start(
        f"event {event['event_type']}", parent=event["trace_id"], kind="consumer", attributes=attributes
    )
