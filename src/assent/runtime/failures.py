"""Settle an event whose attempt failed: postpone it, retry it, fail its step, or make it a dead letter (D10)."""

from datetime import datetime, timedelta
from typing import Any, Final

from assent.engine.apply import EVENT_FAILED
from assent.engine.inputs import Input, Pause
from assent.model.actor import SYSTEM
from assent.model.ids import new_id
from assent.model.mutation import Refused
from assent.model.problems import error_text, typed_error_text
from assent.model.timing import backoff, jittered
from assent.runtime.advance import Advancing
from assent.runtime.batch import BatchItem, Execution
from assent.runtime.errors import InstanceBusy, ReceiptTaken, StepFailed
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.telemetry import hooks

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 300.0
_RETRIES: Final = timedelta(seconds=RETRY_S_MIN), timedelta(seconds=RETRY_S_MAX)
STALE_RETRY_S: Final = 60.0
"""How long an event waits for its workflow to be compiled again."""


async def settle_failure(
    connection: Connection, advancing: Advancing, work: BatchItem, error: Exception, now: datetime
) -> None:
    """Decide about the one event of a work whose attempt failed. The instance's lock is held."""
    (event,) = work.events.values()
    wait_s = _wait_without_attempt_s(error)
    if wait_s is not None:
        await _postpone(connection, event, error, timedelta(seconds=wait_s))
    elif event["attempts"] + 1 < event["attempts_max"]:
        wait = jittered(backoff(event["attempts"] + 1, *_RETRIES))
        await _record(connection, event, "failed", error, wait)
    else:
        await _give_up(connection, advancing, work, event, error, now)


async def pause_for(
    connection: Connection, advancing: Advancing, work: BatchItem, why: str, now: datetime
) -> None:
    """Pause an instance until an operator has looked at the event that failed."""
    pause = Pause(new_id(now), SYSTEM, why, code=EVENT_FAILED)
    await _advance_alone(connection, advancing, work, pause, now)


def _wait_without_attempt_s(error: Exception) -> float | None:
    """Postpone an event without an attempt: its entity is locked (D28), or its workflow is to be recompiled."""
    if isinstance(error, InstanceBusy):
        return RETRY_S_MIN
    if isinstance(error, Refused) and error.code == "WORKFLOW_COMPILER_STALE":
        return STALE_RETRY_S
    return None


async def _give_up(  # noqa: PLR0913, PLR0917
    connection: Connection, advancing: Advancing, work: BatchItem, event: Any, error: Exception, now: datetime
) -> None:
    """The attempts are used up: the error edge is taken, or else the instance pauses and a dead letter is left."""
    try:
        async with connection.transaction():
            went_on = await _fail_step(connection, advancing, work, error, now)
    except Exception as worse:
        error, went_on = worse, False
    if went_on:
        keys = [event["org_id"]], [event["created_at"]], [event["id"]]
        await connection.execute(_SQL.complete_events, *keys, [_text(error)], now)
    else:
        await _record(connection, event, "dead", error, None)


async def _fail_step(
    connection: Connection, advancing: Advancing, work: BatchItem, error: Exception, now: datetime
) -> bool:
    """Record the failure in the instance; true when the workflow knew what to do about it."""
    if isinstance(error, StepFailed):
        failing = {error.node_id: error.error}
        job = await _advance_alone(connection, advancing, work, work.inputs[0], now, failing)
        return job is not None and job.run.instance.status != "paused"
    # A projection that is behind its steps must not get new ones: it is to be rebuilt first.
    if not isinstance(error, ReceiptTaken):
        await pause_for(connection, advancing, work, _text(error), now)
    return False


async def _advance_alone(  # noqa: PLR0913, PLR0917
    connection: Connection,
    advancing: Advancing,
    work: BatchItem,
    given: Input,
    now: datetime,
    failing: dict[str, Exception] | None = None,
) -> Execution | None:
    birth = work.birth if failing else None
    alone = BatchItem(work.org_id, work.instance_id, [given], birth)
    jobs = await advancing.advance(connection, [alone], now, as_owner=True, failing=failing)
    return jobs[0] if jobs else None


async def _postpone(connection: Connection, event: Any, error: Exception, wait: timedelta) -> None:
    keys = event["org_id"], event["created_at"], event["id"]
    await connection.execute(_SQL.postpone_event, *keys, _text(error), wait)


async def _record(
    connection: Connection, event: Any, status: str, error: Exception, wait: timedelta | None
) -> None:
    keys = event["org_id"], event["created_at"], event["id"]
    await connection.execute(_SQL.record_failure, *keys, status, _text(error), wait)
    if hooks.metrics is not None:
        hooks.metrics.event_failed(event["event_type"], status)


def _text(error: Exception) -> str:
    return error_text(error) if isinstance(error, Refused) else typed_error_text(error)
