"""What the audit log says of commands to instances: which input was taken, of whom, by which way."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from assent.audit.write import AuditEntry, write_entries
from assent.engine import inputs
from assent.engine.inputs import Input
from assent.model.actor import SYSTEM_ID
from assent.model.mutation import Rejection
from assent.runtime.batch import Execution
from assent.store.database import Connection

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
    inputs.Decide: "approval.decide",
    inputs.Reassign: "approval.reassign",
    inputs.Claim: "approval.claim",
    inputs.Release: "approval.release",
    inputs.ClaimForm: "form.claim",
    inputs.ReleaseForm: "form.release",
    inputs.SaveDraft: "form.keep_draft",
    inputs.ReassignForm: "form.reassign",
}
"""What commands are called; events and timers are nobody's commands."""

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
    """Return for whom an approver stood in, or whose work an operator set going again."""
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
