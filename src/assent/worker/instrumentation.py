"""Instrumentation of duties and attempts: spans, metrics and error reports."""

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.outcome import EffectResult
from assent.jobs.dead_letters import log_dead
from assent.jobs.job import Failed, JobKind, JobOutcome
from assent.tasks.claimed_task import ClaimedTask
from assent.tasks.settle import TaskResult
from assent.telemetry import Span, hooks, is_sampled, is_traceparent, scope
from assent.worker.duty import DutyRun


def watch_run(run: DutyRun) -> None:
    """Count runs, and report unexpected errors."""
    if hooks.metrics is not None:
        parts = run.done.parts or {"all": run.done.count}
        hooks.metrics.duty(run.duty, run.took_s, parts, failed=run.error is not None)
    if run.error is not None:
        hooks.report(run.error, duty=run.duty)


@dataclass(slots=True)
class SendingSpan:
    """One attempt to send an effect, from its begin to its result."""

    effect: ClaimedEffect
    """With the trace of this attempt: the receiver and the step that awaits it go on from here."""
    span: Span | None
    started_s: float

    def scope(self) -> AbstractContextManager[None]:
        effect = self.effect
        return scope(org_id=effect.org_id, instance_id=effect.instance_id, trace=effect.trace_id)

    def end(self, outcome: JobOutcome) -> None:
        if hooks.metrics is not None:
            hooks.metrics.effect_sent(self.effect.type, time.perf_counter() - self.started_s)
        if self.span is not None:
            if isinstance(outcome, Failed):
                self.span.note(problem=outcome.code)
                self.span.fail(NotDelivered())
            self.span.end()


class NotDelivered(Exception):
    """Names the failure of a span; the code beside it says more."""


def begin_sending(effect: ClaimedEffect) -> SendingSpan:
    span = _start(effect)
    ours = effect if span is None else replace(effect, trace_id=span.trace)
    return SendingSpan(ours, span, time.perf_counter())


def _start(effect: ClaimedEffect) -> Span | None:
    """None also where the trace is not sampled: it is handed on as it is."""
    tracer, trace = hooks.tracer, effect.trace_id
    if tracer is None or (is_traceparent(trace) and not is_sampled(trace)):
        return None
    about = {
        "org_id": effect.org_id,
        "instance_id": effect.instance_id,
        "effect_id": effect.id,
        "effect_type": effect.type,
        "destination": effect.destination,
        "attempt": effect.attempt,
    }
    return tracer.start(f"effect {effect.type}", parent=trace, kind="client", attributes=about)


def count_effects(results: Iterable[EffectResult], now: datetime) -> None:
    """Count the outcomes of attempts to send, once they are written, and log effects that are dead."""
    results = tuple(results)
    log_dead_results("effect", results)
    if hooks.metrics is not None:
        for result in results:
            effect = result.claimed
            hooks.metrics.effect(effect.type, result.status, (now - effect.created_at).total_seconds())


def log_dead_results(kind: JobKind, results: Iterable[EffectResult | TaskResult]) -> None:
    """Write one line for each attempt after which its job is dead."""
    for result in results:
        if result.status == "dead" and isinstance(result.outcome, Failed):
            job = result.claimed
            names = {"org_id": job.org_id, "id": job.id, "instance_id": job.instance_id}
            log_dead(kind, names, job.lane, result.outcome.code, result.error)


@dataclass(slots=True)
class TaskSpan:
    """One attempt at a task, from its begin to its result."""

    task: ClaimedTask
    """With the trace of this attempt: what it submits, and the step that awaits it, go on from here."""
    span: Span | None
    started_s: float

    def scope(self) -> AbstractContextManager[None]:
        return scope(org_id=self.task.org_id, instance_id=self.task.instance_id, trace=self.task.trace_id)

    def end(self, outcome: JobOutcome) -> None:
        if hooks.metrics is not None:
            hooks.metrics.task_ran(self.task.type, time.perf_counter() - self.started_s)
        if self.span is not None:
            if isinstance(outcome, Failed):
                self.span.note(problem=outcome.code)
                self.span.fail(NotDone())
            self.span.end()


class NotDone(Exception):
    """Names the failure of a span; the code beside it says more."""


def begin_working(task: ClaimedTask) -> TaskSpan:
    span = _start_task(task)
    ours = task if span is None else replace(task, trace_id=span.trace)
    return TaskSpan(ours, span, time.perf_counter())


def _start_task(task: ClaimedTask) -> Span | None:
    """None also where the trace is not sampled: it is handed on as it is."""
    tracer, trace = hooks.tracer, task.trace_id
    if tracer is None or (is_traceparent(trace) and not is_sampled(trace)):
        return None
    about = {
        "org_id": task.org_id,
        "task_id": task.id,
        "task_type": task.type,
        "attempt": task.attempt,
    }
    return tracer.start(f"task {task.type}", parent=trace, kind="consumer", attributes=about)


def count_tasks(results: Iterable[TaskResult], now: datetime) -> None:
    """Count the outcomes of attempts at tasks, once they are written, and log tasks that are dead."""
    results = tuple(results)
    log_dead_results("task", results)
    if hooks.metrics is not None:
        for result in results:
            task = result.claimed
            hooks.metrics.task(task.type, result.status, (now - task.created_at).total_seconds())
