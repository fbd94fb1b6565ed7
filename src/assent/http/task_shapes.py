"""Tasks as JSON."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from assent.http.moments import Moment
from assent.http.texts import Body, Data, ShortText
from assent.model.task import PRIORITY_MAX
from assent.tasks.views import Attempt, TaskItem, TaskStatus, TaskView


class SubmitTask(Body):
    """A task to be run in the background."""

    type: ShortText = Field(examples=["report.build"])
    input: Data = Field({}, examples=[{"month": "May"}])
    key: ShortText | None = Field(
        None, description="Stands for this task of its type for good: again, it is the same task."
    )
    priority: int | None = Field(
        None, ge=0, le=PRIORITY_MAX, description="The higher the sooner; without it, as its type says."
    )
    run_at: Moment | None = Field(None, description="Not before; at once, without.")


class SubmittedBody(BaseModel):
    id: UUID


class TaskItemBody(BaseModel):
    """A task, as a list has it."""

    id: UUID
    type: str = Field(examples=["report.build"])
    status: TaskStatus
    priority: int
    attempts: int
    attempts_max: int
    run_at: datetime = Field(description="Not before; after an error, the next try.")
    claimed_at: datetime | None = Field(description="When its last attempt began.")
    ended_at: datetime | None
    key: str | None
    submitted_by: str
    partition_id: str | None
    instance_id: UUID | None = Field(description="Of the step that submitted it.")
    step_id: UUID | None
    awaited: bool = Field(description="Whether that step waits for it.")
    created_at: datetime

    @classmethod
    def of(cls, task: TaskItem) -> "TaskItemBody":
        return cls(**{name: getattr(task, name) for name in cls.model_fields})


class AttemptBody(BaseModel):
    """What became of one attempt."""

    attempt: int
    outcome: Literal["complete", "error", "lost"]
    output: Any
    code: str | None = Field(examples=["TASK_FAILED"])
    error: str | None
    started_at: datetime
    ended_at: datetime

    @classmethod
    def of(cls, attempt: Attempt) -> "AttemptBody":
        return cls(**{name: getattr(attempt, name) for name in cls.model_fields})


class TaskBody(TaskItemBody):
    """A task with what went in and what came out."""

    input: Data
    output: Any = Field(description="What it returned; null before it is complete.")
    tried: list[AttemptBody]

    @classmethod
    def of(cls, task: TaskItem) -> "TaskBody":
        assert isinstance(task, TaskView)
        found = TaskItemBody.of(task).model_dump()
        tried = [AttemptBody.of(attempt) for attempt in task.tried]
        return cls(**found, input=dict(task.input), output=task.output, tried=tried)
