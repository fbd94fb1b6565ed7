"""For operators: how it goes, what was given up, what stands still, and the repairs. `/api/operations`"""

from datetime import timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Query, Response

from assent.http.desk import RequestContext, Transaction
from assent.http.operating_shapes import (
    EnqueuedBody,
    LetterBody,
    RebuiltBody,
    RetriedBody,
    StandingBody,
    StuckBody,
    Why,
)
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.routing import Router
from assent.http.showing import UNSEEN, answer, instance_seen, show_instance
from assent.http.signing import Reading, Writing
from assent.http.workflow_shapes import InstanceBody
from assent.model.cursor import position_of, time_and_id_in
from assent.model.mutation import Refused, Rejection
from assent.operations.dead_letters import (
    DeadLetter,
    LetterKind,
    is_letter_of,
    page_of_dead_letters,
)
from assent.operations.health import HealthLimits, health
from assent.operations.stuck import StuckInstance, find_stuck
from assent.runtime.rights import Operation, may_operate, require_capability
from assent.store.database import Connection

router = Router(prefix="/api/operations", tags=["operations"])

Look = Annotated[RequestContext, Depends(Reading("operations:read"))]
Act = Annotated[RequestContext, Depends(Writing("operations:write", "workflows"))]

READ_HEALTH: Final = "operations:read"
StillQuery = Annotated[int, Query(ge=1, le=2_592_000, description="How many seconds they have been still.")]


@router.get("/health", response_model=StandingBody, summary="See how it goes", responses=documented())
async def show_health(desk: Look) -> Any:
    """For holders of `operations:read`: queues, how fast they go, what stands still, what was given up.

    A caller of one partition sees how it goes there.
    """
    require_capability(desk.caller.actor, READ_HEALTH)
    limits, partition = HealthLimits(), desk.caller.partition_id
    return StandingBody.of(await health(desk.house.database, desk.org_id, limits, partition_id=partition))


@router.get(
    "/dead-letters",
    response_model=Page[LetterBody],
    summary="List dead letters, newest first",
    responses=documented(422),
)
async def list_dead_letters(
    desk: Look,
    kind: LetterKind | None = None,
    cursor: CursorQuery = None,
    limit: LimitQuery = ITEMS_DEFAULT,
) -> Any:
    """For holders of `workflows:retry`."""
    after = position_of(cursor, time_and_id_in)

    async def work(connection: Connection) -> list[DeadLetter]:
        may_operate(desk.caller.actor, "retry")
        partition = desk.caller.partition_id
        return await page_of_dead_letters(
            connection, desk.org_id, kind, after, limit + 1, partition_id=partition
        )

    def place(letter: DeadLetter) -> Any:
        return letter.created_at.isoformat(), str(letter.id)

    return page_of(await desk.read(work), limit, LetterBody.of, place)


@router.post(
    "/dead-letters/{letter_id}/retry",
    response_model=RetriedBody,
    summary="Try a dead letter again",
    responses=documented(404, 409, 413, 422),
)
async def retry_dead_letter(desk: Act, letter_id: UUID) -> Response:
    """For holders of `workflows:retry`. An effect or a task that a step awaited is tried again with its instance."""

    async def work(session: Transaction) -> Reply:
        await _letter_seen(desk, session.connection, letter_id)
        may_operate(desk.caller.actor, "retry")
        return Reply.of(RetriedBody(id=letter_id, kind=await _retry(desk, session, letter_id)))

    return await desk.write(work)


@router.get(
    "/stuck",
    response_model=list[StuckBody],
    summary="List instances that are stuck",
    responses=documented(422),
)
async def list_stuck(desk: Look, still_s: StillQuery = 900, limit: LimitQuery = ITEMS_DEFAULT) -> Any:
    """For holders of `workflows:repair`: those that run, and that nothing could ever move."""

    async def work(connection: Connection) -> list[StuckInstance]:
        may_operate(desk.caller.actor, "repair")
        still = timedelta(seconds=still_s)
        return await find_stuck(connection, desk.org_id, still, limit, desk.caller.partition_id)

    return [StuckBody.of(finding) for finding in await desk.read(work)]


@router.post(
    "/instances/{instance_id}/rebuild",
    response_model=RebuiltBody,
    summary="Rebuild an instance from its steps",
    responses=documented(404, 409, 413, 422),
)
async def rebuild_instance(desk: Act, instance_id: UUID) -> Response:
    """For holders of `workflows:repair`. Steps are the truth; whatever happened to the row, they give it back."""

    async def work(session: Transaction) -> Reply:
        await _operated(desk, session, "repair", instance_id)
        changed = await session.runtime.org(desk.org_id, desk.caller.actor).operations.rebuild(instance_id)
        return Reply.of(RebuiltBody(instance_id=instance_id, changed=changed))

    return await desk.write(work)


@router.post(
    "/instances/{instance_id}/reenqueue",
    status_code=202,
    response_model=EnqueuedBody,
    summary="Have a worker look at an instance again",
    responses=documented(404, 413, 422),
)
async def reenqueue_instance(desk: Act, instance_id: UUID) -> Response:
    """For holders of `workflows:repair`. Whatever is ready in it goes on."""

    async def work(session: Transaction) -> Reply:
        await _operated(desk, session, "repair", instance_id)
        await session.runtime.org(desk.org_id, desk.caller.actor).operations.reenqueue(instance_id)
        return Reply.of(EnqueuedBody(instance_id=instance_id), 202)

    return await desk.write(work)


@router.post(
    "/instances/{instance_id}/force-fail",
    response_model=InstanceBody,
    summary="Fail an instance",
    responses=UNSEEN | documented(400, 404, 409, 413, 422),
)
async def force_fail_instance(desk: Act, instance_id: UUID, body: Why) -> Response:
    """For holders of `workflows:repair`. It ends as failed, with everything that is open in it."""

    async def work(session: Transaction) -> Reply:
        await _operated(desk, session, "repair", instance_id)
        actor = desk.caller.actor
        view = await session.runtime.org(desk.org_id, actor).instances.force_fail(instance_id, body.reason)
        return await answer(show_instance(desk, session.connection, view))

    return await desk.write(work)


async def _letter_seen(desk: RequestContext, connection: Connection, letter_id: UUID) -> None:
    """Another partition's letter is not there, whatever the caller may do here."""
    partition = desk.caller.partition_id
    if partition is not None and not await is_letter_of(connection, desk.org_id, letter_id, partition):
        raise _no_letter(letter_id)


def _no_letter(letter_id: UUID) -> Refused:
    return Refused(Rejection("NOT_FOUND", f"no dead letter {letter_id}", ("letter_id",)))


async def _operated(
    desk: RequestContext, session: Transaction, operation: Operation, instance_id: UUID
) -> None:
    """Another org's instance is not there, whatever the caller may do here."""
    await instance_seen(desk, session.connection, instance_id)
    may_operate(desk.caller.actor, operation)


async def _retry(desk: RequestContext, session: Transaction, letter_id: UUID) -> LetterKind:
    return await session.runtime.org(desk.org_id, desk.caller.actor).dead_letters.retry(letter_id)
