"""Schedules: make, read, pause, resume, run and delete them, and see their next times. `/api/schedules`"""

from typing import Annotated, Final

from fastapi import Body as JsonBody
from fastapi import Query

from assent.bodies.body import ITEMS_DEFAULT, Data, Page
from assent.bodies.operations import SubmittedBody
from assent.bodies.schedules import NextTimesBody, ScheduleBody
from assent.http.context import Transaction
from assent.http.fields import NamePath
from assent.http.paging import CursorQuery, LimitQuery, reply_with_page
from assent.http.problems import reporting_problems
from assent.http.replies import Reply
from assent.http.routing import Router
from assent.model.canonical import require_canonical
from assent.runtime.schedule_commands import NEXT_DEFAULT, NEXT_MAX

router = Router(takes_documents=True, prefix="/api/schedules", tags=["schedules"])

_SCHEDULE: Final = {
    "task": "report.build",
    "cron": "0 9 * * MON-FRI",
    "zone": "Europe/Berlin",
    "missed": "once",
    "input": {"month": "May"},
}

CountQuery = Annotated[int, Query(ge=1, le=NEXT_MAX, description="How many times.")]


@router.query("", scope="schedules:read", summary="List schedules, by name")
async def list_schedules_of_org(
    tx: Transaction, cursor: CursorQuery = None, limit: LimitQuery = ITEMS_DEFAULT
) -> Reply[Page[ScheduleBody]]:
    """For holders of `schedules:read`. Also those that are paused."""
    return reply_with_page(await tx.reads.schedules.list(cursor=cursor, limit=limit), ScheduleBody.of)


@router.query("/{name}", scope="schedules:read", errors=(404,), summary="Read a schedule")
async def show_schedule(tx: Transaction, name: NamePath) -> ScheduleBody:
    """For holders of `schedules:read`."""
    return ScheduleBody.of(await tx.reads.schedules.get(name))


@router.query(
    "/{name}/next", scope="schedules:read", errors=(404,), summary="List the next times of a schedule"
)
async def list_next_times(tx: Transaction, name: NamePath, count: CountQuery = NEXT_DEFAULT) -> NextTimesBody:
    """For holders of `schedules:read`. Of a paused schedule, the times that it would have."""
    times = await tx.reads.schedules.next(name, count=count)
    return NextTimesBody(name=name, times=list(times))


@router.command(
    "/{name}",
    method="PUT",
    scope="schedules:write",
    rate="entities",
    errors=(409,),
    summary="Save a schedule",
)
async def save_schedule_of_org(
    tx: Transaction, name: NamePath, data: Annotated[Data, JsonBody(examples=[_SCHEDULE])]
) -> ScheduleBody:
    """For holders of `schedules:manage` who may submit the task; in place of the schedule of this name."""
    with reporting_problems():
        require_canonical(data)
        return ScheduleBody.of(await tx.runtime.schedules.save(name, data))


@router.command(
    "/{name}/pause", scope="schedules:write", rate="entities", errors=(404,), summary="Pause a schedule"
)
async def pause_schedule_of_org(tx: Transaction, name: NamePath) -> ScheduleBody:
    """For holders of `schedules:manage`. From now on its times start no task."""
    return ScheduleBody.of(await tx.runtime.schedules.pause(name))


@router.command(
    "/{name}/resume", scope="schedules:write", rate="entities", errors=(404,), summary="Resume a schedule"
)
async def resume_schedule_of_org(tx: Transaction, name: NamePath) -> ScheduleBody:
    """For holders of `schedules:manage`. The times that came while it was paused start no task."""
    with reporting_problems():
        return ScheduleBody.of(await tx.runtime.schedules.resume(name))


@router.command(
    "/{name}/run",
    scope="schedules:write",
    rate="workflows",
    status=202,
    errors=(404,),
    summary="Run a schedule at once",
)
async def run_schedule(tx: Transaction, name: NamePath) -> SubmittedBody:
    """For holders of `schedules:manage` who may submit the task. Its times stay as they are."""
    return SubmittedBody(id=await tx.runtime.schedules.run(name))


@router.command(
    "/{name}",
    method="DELETE",
    scope="schedules:write",
    rate="entities",
    errors=(404, 409),
    summary="Delete a schedule",
)
async def delete_schedule_of_org(tx: Transaction, name: NamePath) -> ScheduleBody:
    """For holders of `schedules:manage`. Tasks that it has started stay."""
    return ScheduleBody.of(await tx.runtime.schedules.delete(name))
