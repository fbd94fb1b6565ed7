"""advance: the one way to change instances. One batch, one transaction, for every caller.

The locks of the batch's instances are held by the caller. Then: load everything, go in waves — every instance goes on
until it rests or needs something from outside, the receipts are taken in one statement, the needs are fulfilled —
until every token rests, and write. Round trips per wave do not depend on how many instances there are.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from assent.audit.entries import AuditEntry, write_entries
from assent.engine import inputs
from assent.engine.apply import next_visit
from assent.engine.inputs import Input
from assent.engine.nodes.base import Need
from assent.engine.visit import Visit
from assent.kernel.entities import LockedRows
from assent.model.actor import SYSTEM_ID
from assent.model.mutation import Rejection
from assent.runtime.batch import BatchItem, Execution
from assent.runtime.errors import CommandsRefused, StepFailed
from assent.runtime.keyed_events import feed_kept_events
from assent.runtime.load import Loader
from assent.runtime.needs import NeedOfRun, NeedsFulfilment, fulfil_needs, require_no_calls
from assent.runtime.receipts import receipt_of_visit, receipts_of_steps, take_receipts
from assent.runtime.watch import Perform, Watch
from assent.runtime.write import ignore_strays, write
from assent.store.database import Connection
from assent.telemetry import trace_id_of

JOBS_PER_TURN: Final = 50
"""How many instances go on before the loop's other tasks have a turn: ten steps of each take about 8 ms."""


@dataclass
class Advancing:
    """Advances instances by what the application declares."""

    means: NeedsFulfilment
    loader: Loader

    @property
    def operations(self) -> dict[str, Any]:
        return self.means.operations

    async def advance(  # noqa: PLR0913
        self,
        connection: Connection,
        works: Sequence[BatchItem],
        now: datetime,
        *,
        copies: bool,
        failing: dict[str, Exception] | None = None,
        watch: Watch | None = None,
        shared: bool = False,
    ) -> list[Execution]:
        """Apply the inputs of a batch to its instances and write the result; return the executions.

        A large batch `copies` its steps and receipts by COPY, which takes the rights of the owner. One that is `shared`
        with other orgs calls no function of the application; it raises `CallsApplication` instead.
        """
        standing, held = await self.loader.read(connection, works), LockedRows()
        if watch is not None:
            watch.begin(works)
        jobs = await self.loader.load(connection, works, standing, now, failing=failing, held=held)
        if watch is not None:
            watch.loaded(jobs)
        perform = watch.around(_perform) if watch is not None and watch.observes else _perform
        while True:
            needs = await _perform_until_needs(jobs, perform)
            _require_none_refused(jobs)
            if needs:
                if shared:
                    require_no_calls(self.means, needs)
                await _take_receipts_before(connection, needs, now, copies=copies)
                await fulfil_needs(connection, self.means, needs, held, now)
                if watch is not None:
                    watch.answered(needs)
            elif not await feed_kept_events(connection, jobs, now):
                break
        _note_traces(jobs)
        _note_durations(jobs)
        await write(connection, jobs, now, copies=copies)
        await note_commands_of(connection, jobs, now)
        await ignore_strays(connection, works, jobs, now)
        return jobs


async def _perform_until_needs(jobs: Sequence[Execution], perform: Perform) -> list[NeedOfRun]:
    """Let every instance go on until it rests or needs something, and return the needs: one of each instance.

    Nothing leaves the process here: handlers are pure, and their steps exist in memory only.
    """
    needs: list[NeedOfRun] = []
    for number, job in enumerate(jobs, 1):
        while (visit := next_visit(job.run)) is not None:
            if (need := perform(job, visit)) is not None:
                needs.append((job, visit, need))
                break
        if number % JOBS_PER_TURN == 0:
            await asyncio.sleep(0)
    return needs


def _require_none_refused(jobs: Sequence[Execution]) -> None:
    """Raise `CommandsRefused` if commands led to changes that are refused: their callers wait, and hear why."""
    refusals = {
        job.work.command.id: job.run.refusal
        for job in jobs
        if job.run.refusal is not None and job.work.command is not None
    }
    if refusals:
        raise CommandsRefused(refusals)


async def _take_receipts_before(
    connection: Connection, needs: Sequence[NeedOfRun], now: datetime, *, copies: bool
) -> None:
    """Take the receipts of steps that need something, and of those that led there (WF-14).

    A step that only computes has its receipt when the first thing reaches outside of the engine: a need of its
    instance, or the batch's rows.
    """
    receipts = [receipt for job, _, _ in needs for receipt in receipts_of_steps(job)]
    receipts += [receipt_of_visit(visit) for _, visit, _ in needs]
    await take_receipts(connection, receipts, now, copies=copies)


def _note_traces(jobs: Sequence[Execution]) -> None:
    """Note in the steps of traced instances in which trace they happened: the way from a record to its trace."""
    for job in jobs:
        if job.work.trace is not None:
            for step in job.run.steps:
                step.output["trace_id"] = trace_id_of(job.work.trace)


def _note_durations(jobs: Sequence[Execution]) -> None:
    """Note how long steps took that began and ended in this transaction; those that rested go by their times."""
    for job in jobs:
        for step in job.run.steps:
            if step.id in job.took_s:
                step.duration_ms = round(job.took_s[step.id] * 1000)


def _perform(job: Execution, visit: Visit) -> Need | None:
    began = time.perf_counter()
    try:
        need = job.run.perform(visit)
    except Exception as error:
        raise StepFailed(visit.node.id, error) from error
    job.took_s[visit.step_id] = time.perf_counter() - began
    return need


ACTIONS: Final[Mapping[type[Input], str]] = {
    inputs.Start: "workflow.start",
    inputs.Advance: "workflow.advance",
    inputs.Cancel: "workflow.cancel",
    inputs.Pause: "workflow.pause",
    inputs.Resume: "workflow.resume",
    inputs.RetryInstance: "workflow.retry",
    inputs.Skip: "workflow.skip",
    inputs.CancelToken: "workflow.cancel_token",
    inputs.ForceFail: "workflow.force_fail",
    inputs.EditVariables: "workflow.edit_variables",
    inputs.Decide: "approval.decide",
    inputs.Reassign: "approval.reassign",
    inputs.Claim: "approval.claim",
    inputs.Release: "approval.release",
    inputs.ClaimForm: "form.claim",
    inputs.ReleaseForm: "form.release",
    inputs.SaveDraft: "form.keep_draft",
    inputs.ReassignForm: "form.reassign",
}
"""The names of commands in the audit log; events and timers are no commands."""

_KEPT_ELSEWHERE: Final = {"id", "actor", "data", "reason", "to_email"}


async def note_commands_of(connection: Connection, jobs: Sequence[Execution], now: datetime) -> None:
    """Write the audit entry of each command that was taken; a refused one changes nothing and has none."""
    taken = [
        (job, command)
        for job in jobs
        if (command := job.work.command) is not None and _was_taken(job, command)
    ]
    audit_ids = await write_entries(connection, [_note(job, command) for job, command in taken], now)
    for (job, _), audit_id in zip(taken, audit_ids, strict=True):
        job.audit_id = audit_id


def _was_taken(job: Execution, command: Input) -> bool:
    return any(given is command and not isinstance(outcome, Rejection) for given, outcome in job.run.outcomes)


def _note(job: Execution, command: Input) -> AuditEntry:
    instance = job.run.instance
    return AuditEntry(
        instance.org_id,
        command.actor,
        ACTIONS[type(command)],
        "instance",
        str(instance.id),
        job.work.origin,
        _details(command) | _decided(job, command),
        getattr(command, "reason", None) or None,
        instance.id,
        instance.entity_type,
        instance.entity_id,
        job.work.trace,
        _on_behalf_of(job, command),
    )


def _on_behalf_of(job: Execution, command: Input) -> list[str]:
    """Return the people for which an approver acted, or whose work an operator resumed."""
    if isinstance(command, inputs.Decide | inputs.Advance):
        world = job.run.world
        decisions = [d for r in world.requests.values() for d in r.decisions if d.decided_at == world.now]
        return [d.on_behalf_of for d in decisions if d.on_behalf_of and d.approver_id == command.actor.id]
    if isinstance(command, inputs.RetryInstance | inputs.Skip | inputs.Resume):
        tokens = job.run.instance.tokens.values()
        people = dict.fromkeys(one for token in tokens for one in token.authority.ids)
        return [one for one in people if one not in (command.actor.id, SYSTEM_ID)]
    return []


def _decided(job: Execution, command: Input) -> dict[str, Any]:
    """Return what exactly an approver decided about: the version, and the hash of its content."""
    if not isinstance(command, inputs.Decide):
        return {}
    requests = [r for r in job.run.world.requests.values() if r.id == command.request_id]
    return {
        name: value
        for request in requests
        for name, value in (
            ("entity_version", request.entity_version),
            ("content_hash", request.content_hash),
        )
        if request.entity_id is not None
    }


def _details(command: Input) -> dict[str, Any]:
    said = {field.name: getattr(command, field.name) for field in fields(command)}
    return {name: value for name, value in said.items() if name not in _KEPT_ELSEWHERE and value}
