"""Making a batch true: one statement for each kind of row, however many instances there are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from assent.approvals.forms import EndedForm, write_forms
from assent.approvals.requests import mark_steps_applied, write_requests
from assent.documents.requirements import ActorsChange, write_requirements
from assent.effects.outbox import NewEffect, enqueue
from assent.engine.inputs import Unreadable
from assent.engine.instance import Instance, Step
from assent.engine.run import DEFERRED, IGNORED
from assent.jobs.dead_letters import resolve_of_instances
from assent.model.actor import SYSTEM_ID
from assent.model.approval import ApprovalRequest
from assent.model.contract import EditWindow, strictest
from assent.model.graph import NodeKind
from assent.model.job import TaskSpec
from assent.model.mutation import Event, Rejection
from assent.model.outside_request import EndedStep, OutsideStatus
from assent.outbox.events import emit_events
from assent.requests.outside_requests import Asked, close_requests, end_requests_of_instances, open_requests
from assent.runtime.batch import BatchItem, Execution
from assent.runtime.keyed_events import arrival
from assent.runtime.receipts import receipts_of_steps, take_receipts
from assent.runtime.rows import (
    STEP_COLUMNS,
    changed_instance_row,
    ended_row,
    new_instance_row,
    step_record,
    step_row,
)
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row
from assent.tasks.settle import StepOf, cancel_of_steps
from assent.tasks.submit import Submission, submit_tasks

_SQL: Final = load_queries("assent.runtime", "runtime.sql")


async def write(connection: Connection, jobs: Sequence[Execution], now: datetime, *, copies: bool) -> None:
    """Write steps and their effects, then the projection, then windows, then the events that brought it about."""
    changed = [job for job in jobs if job.run.steps]
    steps = [step for job in changed for step in job.run.steps]
    receipts = [receipt for job in changed for receipt in receipts_of_steps(job)]
    await take_receipts(connection, receipts, now, copies=copies)
    await _write_steps(connection, [step for step in steps if step.is_new], copies=copies)
    ended, consumed = [step for step in steps if not step.is_new], _consumed(jobs, now)
    await _end_steps(connection, ended, consumed)
    await _write_times(connection, jobs)
    await write_requests(connection, [c for job in jobs for c in job.run.world.request_changes()], now)
    await write_forms(
        connection, [c for job in jobs for c in job.run.world.form_changes()], _ended(steps), now
    )
    await close_requests(connection, [one for job in jobs for one in job.run.closes])
    await open_requests(connection, [one for job in jobs for one in _asked(job)], _ended_requests(changed))
    await end_requests_of_instances(connection, _given_up(changed, now))
    await write_requirements(connection, [one for job in jobs for one in _required(job)], now, wakes=False)
    said = {step.id for step in ended}
    await mark_steps_applied(connection, [r for step_id, r in consumed.items() if step_id not in said])
    await enqueue(connection, [wanted for job in jobs for wanted in _effects(job)], now)
    await submit_tasks(connection, [task for job in jobs for task in _tasks(job)], now)
    await emit_events(connection, [event for job in jobs for event in _events(job, now)], now)
    await cancel_of_steps(connection, _left_tasks(steps))
    await _write_instances(connection, changed, now)
    await _write_windows(connection, changed)
    await _finish_events(connection, jobs, now)
    await _revive_dead_letters(connection, changed)
    await resolve_of_instances(connection, [job.work.key for job in changed if _has_gone_on(job)])
    await settle_deferred_events(
        connection, [job.run.instance for job in changed if _may_have_deferred(job)], now
    )


async def _write_steps(connection: Connection, steps: Sequence[Step], *, copies: bool) -> None:
    if not steps:
        return
    if copies:
        await connection.copy_records_to_table(
            "workflow_step_executions",
            schema_name="assent",
            columns=STEP_COLUMNS,
            records=map(step_record, steps),  # one at a time: a batch has thousands
        )
    else:
        await put(connection, _SQL.insert_steps, [step_row(step) for step in steps])


def _effects(job: Execution) -> list[NewEffect]:
    """Return what the job's steps want to be sent, each once for its step (WF-11)."""
    if not job.run.effects:
        return []
    return [
        NewEffect(
            *(step.org_id, step.instance_id, step.id, step.created_at, step.key, effect),
            trace_id=job.trace_of(step.id),
        )
        for step, effect in job.run.effects
    ]


def _events(job: Execution, now: datetime) -> list[Event]:
    """Return the events that the job's steps emit, each once for its step, for the instance's partition (WF-11)."""
    partition = job.run.instance.partition_id
    return [
        replace(
            arrival(
                *(step.org_id, event.key, now, f"step:{step.key}", partition, _people(job, step)),
                data=event.data,
                hops=event.hops,
            ),
            trace_id=job.trace_of(step.id),
        )
        for step, event in job.run.events
    ]


def _people(job: Execution, step: Step) -> tuple[str, ...]:
    """Return whose work a step sends on: that of the originators, and of those on whose behalf its token moves."""
    acted = step.output.get("on_behalf_of", [step.actor_id])
    people = dict.fromkeys((*job.run.instance.originators.ids, *acted))
    return tuple(one for one in people if one != SYSTEM_ID)


def _tasks(job: Execution) -> list[Submission]:
    """Return what the job's steps want to be done; a step that rested and ended in the same batch awaits nothing."""
    wanted = [(step, task) for step, task in job.run.tasks if step.status == "pending" or not task.awaited]
    return [_submission(job, step, task) for step, task in wanted]


def _submission(job: Execution, step: Step, task: TaskSpec) -> Submission:
    return Submission(
        org_id=step.org_id,
        type=task.type,
        input=task.input,
        priority=task.priority,
        attempts_max=task.attempts_max,
        submitted_by=step.output.get("on_behalf_of", [step.actor_id])[-1],
        people=_people(job, step),
        partition_id=job.run.instance.partition_id,
        instance_id=step.instance_id,
        step_id=step.id,
        awaited=task.awaited,
        throttle=task.throttle,
        delay=task.delay,
        trace_id=job.trace_of(step.id),
    )


def _left_tasks(steps: Sequence[Step]) -> list[StepOf]:
    """Return steps that end before their task did: it is cancelled with them (D24)."""
    return [
        (step.org_id, step.instance_id, step.id)
        for step in steps
        if step.node_type == NodeKind.TASK and not step.is_new and _is_left(step)
    ]


def _is_left(step: Step) -> bool:
    return step.status in ("cancelled", "skipped", "failed") or bool(step.output.get("timed_out"))


async def _end_steps(
    connection: Connection, steps: Sequence[Step], used: Mapping[UUID, ApprovalRequest]
) -> None:
    if steps:
        rows = [ended_row(step, is_applied=step.id in used) for step in steps]
        await put(connection, _SQL.end_steps, rows)


async def _write_times(connection: Connection, jobs: Sequence[Execution]) -> None:
    """Write the time of each step that stayed; of one that stayed more than once, the last."""
    stays = {t.step_id: (job.work.org_id, t.step_at, t.step_id, s) for job in jobs for t, s in job.run.stays}
    if stays:
        rows = [(org, at, step, stay.resume_at) for org, at, step, stay in stays.values()]
        await put(connection, _SQL.set_times_of_steps, *map(list, zip(*rows, strict=True)))


def _ended(steps: Sequence[Step]) -> list[EndedForm]:
    """Return the forms whose steps have ended, however those ended."""
    ended = [step for step in steps if step.node_type == NodeKind.FORM and step.status != "pending"]
    return [_ended_form(step) for step in ended]


def _ended_form(step: Step) -> EndedForm:
    answered = step.status == "completed" and not step.output.get("timed_out")
    reason = step.output.get("reason") or step.output.get("outcome")
    assert step.completed_at is not None
    return EndedForm(step.org_id, step.id, answered, reason, step.completed_at)


def _asked(job: Execution) -> list[Asked]:
    return [(one, job.trace_of(one.step_id) if one.step_id is not None else None) for one in job.run.asks]


def _required(job: Execution) -> list[ActorsChange]:
    """Return what steps did to the documents that their instance requires."""
    return [ActorsChange(change, job.run.actor.id) for change in job.run.world.changed]


def _ended_requests(jobs: Sequence[Execution]) -> list[EndedStep]:
    """Return the outside requests that end with their steps, because results have not ended them before."""
    return [_ended_request(step) for job in jobs for step in job.run.steps if _asked_outside(job, step)]


def _given_up(jobs: Sequence[Execution], now: datetime) -> list[Row]:
    """Return the instances that end here without having come to their end."""
    return [
        {"org_id": one.org_id, "instance_id": one.id, "status": one.status, "ended_at": now}
        for one in (job.run.instance for job in jobs)
        if one.status in ("cancelled", "failed")
    ]


def _asked_outside(job: Execution, step: Step) -> bool:
    if step.status == "pending":
        return False
    if step.node_type == NodeKind.REQUIREMENTS:
        return "entered" in step.output
    if step.node_type != NodeKind.WEBHOOK_OUT:
        return False
    return "entered" in step.output and job.run.plan.nodes[step.node_id].node.config["await"] == "result"


def _ended_request(step: Step) -> EndedStep:
    status: OutsideStatus = "failed" if step.status == "failed" else "cancelled"
    assert step.completed_at is not None
    reason = step.error or step.output.get("reason") or step.output.get("outcome")
    return EndedStep(step.org_id, step.id, status, reason, step.completed_at)


def _consumed(jobs: Sequence[Execution], now: datetime) -> dict[UUID, ApprovalRequest]:
    """Return step → the request that it asked, of those that were consumed: by a gate, or by the step itself."""
    requests = (r for job in jobs for r in job.run.world.requests.values())
    return {r.step_id: r for r in requests if r.applied_at == now}


async def _write_instances(connection: Connection, jobs: Sequence[Execution], now: datetime) -> None:
    new = [new_instance_row(job, now) for job in jobs if job.is_new and not job.inserted]
    if new:
        await put(connection, _SQL.insert_instances, new)
    changed = [changed_instance_row(job, now) for job in jobs if not job.is_new or job.inserted]
    await _pass_through_running(connection, jobs)
    if changed:
        await put(connection, _SQL.update_instances_if_unchanged, changed)


async def _pass_through_running(connection: Connection, jobs: Sequence[Execution]) -> None:
    resumed = [
        job.work for job in jobs if job.status_before == "paused" and job.run.instance.status == "completed"
    ]
    if resumed:
        await put(
            connection,
            _SQL.begin_ends_of_paused_instances,
            [work.org_id for work in resumed],
            [work.instance_id for work in resumed],
        )


async def _write_windows(connection: Connection, jobs: Sequence[Execution]) -> None:
    windows = []
    for job in jobs:
        entity, row = job.run.world.entity, _window_row(job)
        if entity is not None and row is not None:
            windows.append(row)
            instance_id = None if row["ended"] else row["instance_id"]
            job.run.world.entity = entity.evolve(edit_window=row["edit_window"], instance_id=instance_id)
    if windows:
        await put(connection, _SQL.set_edit_windows, windows)


def _window_row(job: Execution) -> dict[str, Any] | None:
    instance, entity = job.run.instance, job.run.world.entity
    if entity is None:
        return None
    window = _window(job, instance, entity.edit_window)
    if window is entity.edit_window and entity.instance_id == instance.id and not instance.has_ended:
        return None
    return {
        "org_id": instance.org_id,
        "entity_id": entity.id,
        "instance_id": instance.id,
        "edit_window": window,
        "ended": instance.has_ended,
    }


def _window(job: Execution, instance: Instance, current: EditWindow) -> EditWindow:
    """Return the strictest of all tokens; completion freezes that of the entity's state, other ends leave it (D17)."""
    plan, entity = job.run.plan, job.run.world.entity
    if instance.status == "completed" and entity is not None:
        state = f"sys:state:{entity.state}"
        return plan.window(state) if state in plan.nodes else current
    places = [token.node for token in instance.tokens.values() if token.state != "split"]
    return strictest([plan.window(node) for node in places]) if places else current


async def _finish_events(connection: Connection, jobs: Sequence[Execution], now: datetime) -> None:
    done: list[tuple[Any, str | None]] = []
    waiting: list[Any] = []
    for job in jobs:
        for given, outcome in job.run.outcomes:
            event = job.work.events.get(given.id)
            if event is not None and outcome == DEFERRED:
                waiting.append(event)
            elif event is not None:
                done.append((event, _note(outcome)))
    if done:
        rows = [event for event, _ in done]
        await put(connection, _SQL.complete_events, *_keys(rows), [note for _, note in done], now)
    if waiting:
        await put(connection, _SQL.defer_events, *_keys(waiting))


async def ignore_strays(
    connection: Connection, works: Sequence[BatchItem], jobs: Sequence[Execution], now: datetime
) -> None:
    """End events of instances that are not there, or not any more: they are late for ever (D27)."""
    if len(jobs) == len(works):
        return
    there = {job.work.key for job in jobs}
    strays = [work for work in works if work.key not in there]
    unreadable = [given for work in strays for given in work.inputs if isinstance(given, Unreadable)]
    if unreadable:
        raise ValueError(unreadable[0].problem)
    events = [event for work in strays for event in work.events.values()]
    if events:
        notes = [f"{IGNORED}: NOT_FOUND"] * len(events)
        await put(connection, _SQL.complete_events, *_keys(events), notes, now)


def _note(outcome: str | Rejection) -> str | None:
    if isinstance(outcome, Rejection):
        return f"{IGNORED}: {outcome.code}"
    return IGNORED if outcome == IGNORED else None


def _keys(events: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    return (
        [event["org_id"] for event in events],
        [event["created_at"] for event in events],
        [event["id"] for event in events],
    )


async def _revive_dead_letters(connection: Connection, jobs: Sequence[Execution]) -> None:
    """Give an instance that is tried again the events that it could not take."""
    retried = [job.work.key for job in jobs if any(step.node_id == "ctl:retry" for step in job.run.steps)]
    if retried:
        await put(connection, _SQL.revive_dead_letters, *zip(*retried, strict=True))


def _has_gone_on(job: Execution) -> bool:
    """Return whether an instance has left a failed step behind: by its error edge, a retry, a skip or its end."""
    failed = any(step.status == "failed" and not step.is_new for step in job.run.steps)
    return job.run.instance.status != "paused" and (failed or job.status_before == "paused")


def _may_have_deferred(job: Execution) -> bool:
    """Return whether events may wait for a pause of this instance to end: of before, or of a while in this run."""
    return job.status_before == "paused" or any(outcome == DEFERRED for _, outcome in job.run.outcomes)


async def settle_deferred_events(
    connection: Connection, instances: Sequence[Instance], now: datetime
) -> None:
    """Make the events due that waited for instances which run again, and end those of instances which ended (D27).

    The one rule about events that wait for a pause to end. It goes by the status that an instance has now, so that no
    way out of a pause can be forgotten.
    """
    running = [(one.org_id, one.id) for one in instances if one.status == "running"]
    if running:
        await put(connection, _SQL.release_deferred_events, *zip(*running, strict=True))
    ended = [(one.org_id, one.id) for one in instances if one.has_ended]
    if ended:
        await put(connection, _SQL.ignore_open_events, *zip(*ended, strict=True), now)
