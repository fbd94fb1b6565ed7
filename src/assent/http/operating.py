"""For operators: how it goes, what was given up, what stands still, and the repairs. `/api/operations`"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from assent.http.desk import Desk, Session
from assent.http.instances import instance_for
from assent.http.operating_shapes import (
    EnqueuedBody,
    LetterBody,
    RebuiltBody,
    RetriedBody,
    StandingBody,
    StuckBody,
    Why,
)
from assent.http.paging import ITEMS_DEFAULT, CursorQuery, LimitQuery, Page, page_of, position_of
from assent.http.problems import documented
from assent.http.reply import Reply
from assent.http.signing import Reading, Writing
from assent.http.workflow_shapes import InstanceBody
from assent.model.mutation import Refused, Rejection
from assent.runtime.dead_letters import DeadLetter, LetterKind, page_of_dead_letters, retry_letter
from assent.runtime.health import HealthLimits, health
from assent.runtime.rights import Operation, may_operate, require_capability
from assent.runtime.stuck import Finding, find_stuck
from assent.store.database import Connection

router = APIRouter(prefix="/api/operations", tags=["operations"])

Look = Annotated[Desk, Depends(Reading("operations:read"))]
Act = Annotated[Desk, Depends(Writing("operations:write", "workflows"))]

READ_HEALTH: Final = "operations:read"
StillQuery = Annotated[int, Query(ge=1, le=2_592_000, description="How many seconds they have been still.")]


@router.get("/health", response_model=StandingBody, summary="See how it goes", responses=documented())
async def show_health(desk: Look) -> Any:
    """For holders of `operations:read`: queues, how fast they go, what stands still, what was given up."""
    _of_whole_org(desk)
    require_capability(desk.caller.actor, READ_HEALTH)
    return StandingBody.of(await health(desk.house.database, desk.org_id, HealthLimits.from_environment()))


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
    after = position_of(
        cursor, lambda place: (datetime.fromisoformat(place[0]).astimezone(UTC), UUID(place[1]))
    )

    async def work(connection: Connection) -> list[DeadLetter]:
        _of_whole_org(desk)
        may_operate(desk.caller.actor, "retry")
        return await page_of_dead_letters(connection, desk.org_id, kind, after, limit + 1)

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

    async def work(session: Session) -> Reply:
        _of_whole_org(desk)
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

    async def work(connection: Connection) -> list[Finding]:
        _of_whole_org(desk)
        may_operate(desk.caller.actor, "repair")
        return await find_stuck(connection, desk.org_id, timedelta(seconds=still_s), limit)

    return [StuckBody.of(finding) for finding in await desk.read(work)]


@router.post(
    "/instances/{instance_id}/rebuild",
    response_model=RebuiltBody,
    summary="Rebuild an instance from its steps",
    responses=documented(404, 409, 413, 422),
)
async def rebuild_instance(desk: Act, instance_id: UUID) -> Response:
    """For holders of `workflows:repair`. Steps are the truth; whatever happened to the row, they give it back."""

    async def work(session: Session) -> Reply:
        await _operated(desk, session, "repair", instance_id)
        changed = await session.runtime.rebuild(desk.org_id, instance_id, desk.caller.actor)
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

    async def work(session: Session) -> Reply:
        await _operated(desk, session, "repair", instance_id)
        await session.runtime.reenqueue(desk.org_id, instance_id, desk.caller.actor)
        return Reply.of(EnqueuedBody(instance_id=instance_id), 202)

    return await desk.write(work)


@router.post(
    "/instances/{instance_id}/force-fail",
    response_model=InstanceBody,
    summary="Fail an instance",
    responses=documented(400, 404, 409, 413, 422),
)
async def force_fail_instance(desk: Act, instance_id: UUID, body: Why) -> Response:
    """For holders of `workflows:repair`. It ends as failed, with everything that is open in it."""

    async def work(session: Session) -> Reply:
        await instance_for(desk, session.connection, instance_id)
        actor = desk.caller.actor
        view = await session.runtime.force_fail(desk.org_id, instance_id, actor, body.reason)
        return Reply.of(InstanceBody.of(view))

    return await desk.write(work)


def _of_whole_org(desk: Desk) -> None:
    """Queues and letters know no partitions; whoever sees only one of them sees none of these."""
    if desk.caller.partition_id is not None:
        message = f"{desk.caller.actor.id} sees one partition only, and this is of the whole org"
        raise Refused(Rejection("POLICY_DENIED", message, ("actor",)))


async def _operated(desk: Desk, session: Session, operation: Operation, instance_id: UUID) -> None:
    """Another org's instance is not there, whatever the caller may do here."""
    await instance_for(desk, session.connection, instance_id)
    may_operate(desk.caller.actor, operation)


async def _retry(desk: Desk, session: Session, letter_id: UUID) -> LetterKind:
    found = await retry_letter(session.runtime, desk.org_id, letter_id, desk.caller.actor)
    if found is None:
        raise Refused(Rejection("NOT_FOUND", f"no dead letter {letter_id}", ("letter_id",)))
    return found
