"""Bodies of schedules."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from assent.bodies.body import ResponseModel
from assent.schedules.cron import Missed


class ScheduleBody(ResponseModel):
    """A schedule of the org, which starts a task at the times of a cron line."""

    name: str = Field(examples=["report.nightly"])
    task: str = Field(validation_alias="task_type", examples=["report.build"])
    cron: str = Field(examples=["0 9 * * MON-FRI"])
    zone: str = Field(examples=["Europe/Berlin"])
    missed: Missed = Field(
        description="Of the times that came while no worker ran: none starts a task, all start one, or each its own."
    )
    input: dict[str, Any]
    partition_id: str | None
    declared: bool = Field(
        description="Whether the code of an application declares it, which alone changes it."
    )
    paused: bool
    problem: str | None = Field(description="Why a worker paused it.")
    next_at: datetime = Field(description="When it is due; a paused one starts no task.")
    last_at: datetime | None = Field(description="The last time that started a task.")
    last_task_id: UUID | None
    created_by: str
    created_at: datetime
    updated_at: datetime


class NextTimesBody(ResponseModel):
    """The next times of a schedule."""

    name: str = Field(examples=["report.nightly"])
    times: list[datetime]
