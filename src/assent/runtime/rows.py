"""Between the engine's values and the rows that the runtime's statements take and give."""

from datetime import datetime
from typing import Any, Final

from assent.engine.instance import Instance, Originators, Step, Token
from assent.runtime.batch import Execution
from assent.store.rows import Row

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
    return Instance(
        org_id=row["org_id"],
        id=row["id"],
        subject_id=row["subject_id"],
        started_at=row["started_at"],
        entity_type=row["entity_type"],
        entity_id=row["entity_id"],
        entity_version=row["entity_version"],
        partition_id=row["partition_id"],
        status=row["status"],
        tokens={token.id: token for token in tokens},
        context=row["context_json"],
        version=row["version"],
        generation=row["generation"],
        chain_length=row["chain_length"],
        incident=row["incident"],
        expires_at=row["expires_at"],
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
    """A new step as a record for COPY; the order is that of STEP_COLUMNS."""
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
        0 if ended else None,
        step.input,
        step.output,
        step.error,
        step.actor_id,
        step.resume_at,
        step.event_key,
        step.request_id,
        step.snapshot_version_id,
    )


def step_row(step: Step) -> dict[str, Any]:
    return dict(zip(STEP_COLUMNS, step_record(step), strict=True))


def ended_row(step: Step) -> dict[str, Any]:
    return {
        "org_id": step.org_id,
        "created_at": step.created_at,
        "id": step.id,
        "status": step.status,
        "completed_at": step.completed_at,
        "output_json": step.output,
        "error": step.error,
    }


def projection_row(job: Execution, now: datetime) -> dict[str, Any]:
    """What both a new instance and a changed one are written with."""
    instance = job.run.instance
    last = job.run.steps[-1].id if job.run.steps else None
    pin = job.definition
    return {
        "org_id": instance.org_id,
        "id": instance.id,
        "definition_id": pin.id,
        "definition_version": pin.version,
        "definition_hash": pin.hash,
        "entity_version": instance.entity_version,
        "status": instance.status,
        "active_tokens": [token.to_json() for token in instance.tokens.values()],
        "current_nodes": instance.current_nodes,
        "version": instance.version,
        "generation": instance.generation,
        "chain_length": instance.chain_length,
        "incident": instance.incident,
        "originators": instance.originators.to_json(),
        "last_step_id": last,
        "updated_at": now,
        "completed_at": now if instance.has_ended else None,
    }


def new_instance_row(job: Execution, now: datetime) -> dict[str, Any]:
    instance, birth = job.run.instance, job.work.birth
    return projection_row(job, now) | {
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


def changed_instance_row(job: Execution, now: datetime) -> dict[str, Any]:
    context = job.run.instance.context
    changed = context != job.context_before
    return projection_row(job, now) | {
        "from_version": job.from_version,
        "context_json": context if changed else None,
    }
