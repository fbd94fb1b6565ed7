"""Operations: health, dead letters, stuck instances and repairs. `/api/operations`"""

from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from fastapi import Query
from pydantic import Field

from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.bodies.instances import InstanceBody
from assent.bodies.operations import (
    ComparedBody,
    DiscardedBody,
    EnqueuedBody,
    HealthReport,
    IncidentBody,
    IncidentGroupBody,
    LetterBody,
    OpenItemBody,
    RebuiltBody,
    RetriedBody,
    StuckBody,
)
from assent.http.context import RequestContext, Transaction
from assent.http.fields import NameQuery, RequestModel, ShortText, Text
from assent.http.paging import CursorQuery, LimitQuery, page_of
from assent.http.replies import Reply
from assent.http.routes.instances import find_visible_instance, show_view
from assent.http.routes.readable import reply_if_readable
from assent.http.routing import Router
from assent.model.cursor import position_of, time_and_id_in
from assent.operations.incidents import IncidentFilter, IncidentKind
from assent.operations.queues import LetterKind, page_of_dead_letters
from assent.runtime.rights import may_operate

router = Router(prefix="/api/operations", tags=["operations"])

READ_HEALTH: Final = "operations:read"
StillQuery = Annotated[int, Query(ge=1, le=2_592_000, description="The number of seconds without a change.")]


class DiscardReason(RequestModel):
    reason: Text = Field(min_length=1, max_length=2_000, examples=["The order was paid by hand"])


class SkipBody(RequestModel):
    step: ShortText = Field(min_length=1, examples=["tell"])
    edge: ShortText = Field(min_length=1, examples=["tell->end"])
    reason: Text = Field("", examples=["The receiver was called"])


class TokenBody(RequestModel):
    token: ShortText = Field(min_length=1, examples=["0.1"])
    reason: Text = Field("", examples=["This branch is not needed"])


class VariablesBody(RequestModel):
    variables: Data = Field(min_length=1, examples=[{"url": "https://example.com/orders"}])
    reason: Text = Field("", examples=["The address had a typing error"])


class FailureReason(RequestModel):
    reason: Text = Field(min_length=1, examples=["The vendor is gone for good"])


@router.query("/health", scope="operations:read", summary="Read the health of the org")
async def show_health(context: RequestContext) -> HealthReport:
    """For holders of `operations:read`: queues, latency, stuck instances, dead letters, and contracts of this server
    that differ from the published ones.

    A caller of one partition gets the health of that partition.
    """
    return HealthReport.of(await context.org_runtime().operations.health())


@router.query("/incidents", scope="operations:read", summary="List incidents, grouped by error")
async def list_incident_groups(tx: Transaction) -> Reply[Page[IncidentGroupBody]]:
    """For holders of `workflows:retry`: instances that an error paused, and dead letters.

    Grouped by kind, code, definition and node, the newest group first, on one page.
    """
    groups = await tx.runtime.operations.incidents()
    return page_of(groups, max(1, len(groups)), IncidentGroupBody.of, lambda group: str(group.examples[0]))


@router.query("/incidents/all", scope="operations:read", summary="List incidents, newest first")
async def list_incidents(  # noqa: PLR0913, PLR0917
    tx: Transaction,
    kind: IncidentKind | None = None,
    code: NameQuery = None,
    definition: NameQuery = None,
    node: NameQuery = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[IncidentBody]]:
    """For holders of `workflows:retry`: each with the commands that help. The parameters name one group."""
    after = position_of(cursor, time_and_id_in)
    wanted = IncidentFilter(kind, code, definition, node)
    found = await tx.runtime.operations.list_incidents(wanted, after=after, limit=limit + 1)
    return page_of(found, limit, IncidentBody.of, lambda one: (one.since.isoformat(), str(one.id)))


@router.query("/dead-letters", scope="operations:read", summary="List dead letters, newest first")
async def list_dead_letters(
    tx: Transaction,
    kind: LetterKind | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Reply[Page[LetterBody]]:
    """For holders of `workflows:retry`."""
    after = position_of(cursor, time_and_id_in)
    may_operate(tx.actor, "retry")
    letters = await page_of_dead_letters(
        tx.connection, tx.org_id, kind, after, limit + 1, partition_id=tx.partition_id
    )
    return page_of(
        letters, limit, LetterBody.of, lambda letter: (letter.created_at.isoformat(), str(letter.id))
    )


@router.command(
    "/dead-letters/{letter_id}/retry",
    scope="operations:write",
    rate="workflows",
    errors=(404, 409),
    summary="Retry a dead letter",
)
async def retry_dead_letter(tx: Transaction, letter_id: UUID) -> RetriedBody:
    """For holders of `workflows:retry`. An effect or a task that a step awaited is retried with its instance."""
    may_operate(tx.actor, "retry")
    return RetriedBody(id=letter_id, kind=await tx.runtime.dead_letters.retry(letter_id))


@router.command(
    "/dead-letters/{letter_id}/discard",
    scope="operations:write",
    rate="workflows",
    errors=(404,),
    summary="Discard a dead letter",
)
async def discard_dead_letter(tx: Transaction, letter_id: UUID, body: DiscardReason) -> DiscardedBody:
    """For holders of `workflows:repair`. It leaves the list for good; the audit log keeps the reason."""
    return DiscardedBody(id=letter_id, kind=await tx.runtime.dead_letters.discard(letter_id, body.reason))


@router.query("/stuck", scope="operations:read", summary="List stuck instances")
async def list_stuck(
    tx: Transaction, still_s: StillQuery = 900, limit: LimitQuery = ITEMS_DEFAULT
) -> Page[StuckBody]:
    """For holders of `workflows:repair`: running instances that nothing will ever continue, on one page."""
    found = await tx.reads.operations.stuck(timedelta(seconds=still_s), limit=limit)
    return Page(items=[StuckBody.of(stuck) for stuck in found])


@router.query("/open", scope="operations:read", summary="List what is open, queue by queue")
async def list_open_items(tx: Transaction, limit: LimitQuery = ITEMS_DEFAULT) -> Page[OpenItemBody]:
    """For holders of `workflows:retry`: events to process, effects to send, results to fold, and events that are kept.

    The oldest first, at most `limit` of each queue, on one page.
    """
    found = await tx.reads.events.list_open(limit=limit)
    return Page(items=[OpenItemBody.of(item) for item in found])


@router.query(
    "/instances/{instance_id}/comparison",
    scope="operations:read",
    errors=(404,),
    summary="Compare an instance with its steps",
)
async def compare_instance(tx: Transaction, instance_id: UUID) -> ComparedBody:
    """For holders of `workflows:repair`: the parts of its row that are not what its steps make them."""
    return ComparedBody.of_differences(instance_id, await tx.reads.operations.compare(instance_id))


@router.command(
    "/instances/{instance_id}/rebuild",
    scope="operations:write",
    rate="workflows",
    errors=(404, 409),
    summary="Rebuild an instance from its steps",
)
async def rebuild_instance(tx: Transaction, instance_id: UUID) -> RebuiltBody:
    """For holders of `workflows:repair`. The steps are the source of truth; the row is computed from them."""
    await _require_repair(tx, instance_id)
    changed = await tx.runtime.operations.rebuild(instance_id)
    return RebuiltBody(instance_id=instance_id, changed=changed)


@router.command(
    "/instances/{instance_id}/reenqueue",
    scope="operations:write",
    rate="workflows",
    status=202,
    errors=(404,),
    summary="Enqueue an instance again",
)
async def reenqueue_instance(tx: Transaction, instance_id: UUID) -> EnqueuedBody:
    """For holders of `workflows:repair`. A worker continues the instance wherever it is ready."""
    await _require_repair(tx, instance_id)
    await tx.runtime.operations.reenqueue(instance_id)
    return EnqueuedBody(instance_id=instance_id)


@router.command(
    "/instances/{instance_id}/force-fail",
    scope="operations:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Fail an instance",
)
async def force_fail_instance(tx: Transaction, instance_id: UUID, body: FailureReason) -> Reply[InstanceBody]:
    """For holders of `workflows:repair`. It ends as failed, with all that is open in it."""
    await _require_repair(tx, instance_id)
    view = await tx.runtime.instances.force_fail(instance_id, body.reason)
    return await reply_if_readable(show_view(tx, view))


@router.command(
    "/instances/{instance_id}/skip",
    scope="operations:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Skip a step",
)
async def skip_step(tx: Transaction, instance_id: UUID, body: SkipBody) -> Reply[InstanceBody]:
    """For holders of `workflows:repair`. The instance goes on by one of the step's edges."""
    await _require_repair(tx, instance_id)
    view = await tx.runtime.instances.skip(instance_id, body.step, body.edge, body.reason)
    return await reply_if_readable(show_view(tx, view))


@router.command(
    "/instances/{instance_id}/cancel-token",
    scope="operations:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Cancel a token",
)
async def cancel_token(tx: Transaction, instance_id: UUID, body: TokenBody) -> Reply[InstanceBody]:
    """For holders of `workflows:repair`. One branch of the instance ends; the others go on."""
    await _require_repair(tx, instance_id)
    view = await tx.runtime.instances.cancel_token(instance_id, body.token, body.reason)
    return await reply_if_readable(show_view(tx, view))


@router.command(
    "/instances/{instance_id}/variables",
    scope="operations:write",
    rate="workflows",
    errors=(204, 404, 409),
    summary="Edit variables of a paused instance",
)
async def edit_variables(tx: Transaction, instance_id: UUID, body: VariablesBody) -> Reply[InstanceBody]:
    """For holders of `workflows:repair`, who are originators then: they approve nothing of the instance after that.

    Each variable keeps its JSON type. Those that are not named stay as they are.
    """
    await _require_repair(tx, instance_id)
    view = await tx.runtime.instances.edit_variables(instance_id, body.variables, body.reason)
    return await reply_if_readable(show_view(tx, view))


async def _require_repair(tx: Transaction, instance_id: UUID) -> None:
    """Raise `Refused` unless the caller sees the instance and may repair it."""
    await find_visible_instance(tx, instance_id)
    may_operate(tx.actor, "repair")
