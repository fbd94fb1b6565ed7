"""Between the engine's values and the rows that the runtime's statements take and give."""

from datetime import datetime
from typing import Any, Final

from assent.engine.instance import Instance, Originators, Step, Token
from assent.runtime.batch import Execution
from assent.store.rows import Row, RowValues, from_row, to_row

STEP_COLUMNS: Final = (
    "org_id",
    "created_at",
    "id",
    "instance_id",
    "node_id",
    "node_type",
    "token_id",
    "entity_version",
    "status",
    "run_as",
    "idempotency_key",
    "started_at",
    "completed_at",
    "duration_ms",
    "input_json",
    "output_json",
    "error",
    "actor_user_id",
    "resume_at",
    "waiting_for_event_key",
    "approval_request_id",
    "snapshot_version_id",
)


def instance_from(row: Row) -> Instance:
    tokens = [Token.from_json(token) for token in row["active_tokens"]]
    return from_row(
        Instance,
        row,
        tokens={token.id: token for token in tokens},
        context=row["context_json"],
        originators=Originators.from_json(row["originators"]),
    )


def step_from(row: Row) -> Step:
    return Step(
        org_id=row["org_id"],
        instance_id=row["instance_id"],
        id=row["id"],
        created_at=row["created_at"],
        node_id=row["node_id"],
        node_type=row["node_type"],
        token_id=row["token_id"],
        entity_version=row["entity_version"],
        key=row["idempotency_key"],
        status=row["status"],
        actor_id=row["actor_user_id"],
        run_as=row["run_as"],
        output=row["output_json"] or {},
        error=row["error"],
    )


def step_record(step: Step) -> tuple[Any, ...]:
    """Return a new step as a record for COPY; the order is that of STEP_COLUMNS."""
    ended = step.completed_at is not None
    return (
        step.org_id,
        step.created_at,
        step.id,
        step.instance_id,
        step.node_id,
        step.node_type,
        step.token_id,
        step.entity_version,
        step.status,
        step.run_as,
        step.key,
        step.created_at,
        step.completed_at,
        step.duration_ms if ended else None,
        step.input,
        step.output,
        step.error,
        step.actor_id,
        step.resume_at,
        step.event_key,
        step.request_id,
        step.snapshot_version_id,
    )


def step_row(step: Step) -> RowValues:
    return dict(zip(STEP_COLUMNS, step_record(step), strict=True))


def ended_row(step: Step, *, is_applied: bool) -> RowValues:
    """Return how a step ended, and whether the approval that it asked for was consumed at once."""
    kept = ("org_id", "created_at", "id", "status", "completed_at", "error")
    return to_row(step, kept, output_json=step.output, applied=True if is_applied else None)


_PROJECTED: Final = (
    "org_id",
    "id",
    "entity_version",
    "status",
    "current_nodes",
    "version",
    "generation",
    "chain_length",
    "incident",
)
"""What an instance's row holds under the names of its attributes."""


def projection_row(instance: Instance, now: datetime) -> RowValues:
    """Return what follows from an instance's steps, as columns."""
    return to_row(
        instance,
        _PROJECTED,
        active_tokens=[token.to_json() for token in instance.tokens.values()],
        updated_at=now,
        completed_at=now if instance.has_ended else None,
    )


def _written_row(job: Execution, now: datetime) -> RowValues:
    """Return what both a new instance and a changed one are written with."""
    pin, steps = job.definition, job.run.steps
    return projection_row(job.run.instance, now) | {
        "definition_id": pin.id,
        "definition_version": pin.version,
        "definition_hash": pin.hash,
        "originators": job.run.instance.originators.to_json(),
        "last_step_id": steps[-1].id if steps else None,
    }


def new_instance_row(job: Execution, now: datetime) -> RowValues:
    instance, birth = job.run.instance, job.work.birth
    return _written_row(job, now) | {
        "workflow_id": job.definition.workflow.key,
        "entity_type": instance.entity_type,
        "entity_id": instance.entity_id,
        "partition_id": instance.partition_id,
        "subject_id": instance.subject_id,
        "context_json": instance.context,
        "idempotency_key": birth.idempotency_key if birth else None,
        "started_at": instance.started_at,
        "expires_at": instance.expires_at,
    }


def changed_instance_row(job: Execution, now: datetime) -> RowValues:
    context = job.run.instance.context
    changed = context != job.context_before
    return _written_row(job, now) | {
        "from_version": job.from_version,
        "context_json": context if changed else None,
    }
