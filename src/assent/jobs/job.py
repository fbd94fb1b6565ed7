"""A job: what a claimed one is, how an attempt at it ends, and what follows from that. Pure.

done                                                 → done
waits for its subtasks, or for an outside system     → blocked, background
failed, and may be tried again                       → retrying, with the time of the next attempt
failed for good, or attempts used up                 → dead
outcome unknown (ambiguous), and it must not repeat  → dead
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Literal, TypeVar
from uuid import UUID

from assent.model.problems import clean_error_text
from assent.model.timing import backoff, jittered

JobKind = Literal["task", "effect", "result"]
JOB_KINDS: Final[tuple[JobKind, ...]] = ("task", "effect", "result")

JobStatus = Literal["queued", "running", "blocked", "background", "retrying", "done", "cancelled", "dead"]

JobKey = tuple[str, UUID, int]
"""An org, a job of it, and the attempt: together with the worker, the fence of everything that an attempt writes."""

LANE_CHARACTERS_MAX: Final = 200


def job_columns(jobs: Iterable[JobKey]) -> tuple[list[str], list[UUID], list[int]]:
    """Return the columns of keys, each as one array argument."""
    keys = list(jobs)
    return [key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys]


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that a worker has claimed; each kind adds what is needed to run it."""

    org_id: str
    id: UUID
    lane: str
    """Jobs of one lane wait behind each other: the type of a task, the destination of an effect, a result's request."""
    attempt: int
    """Which one this is, from 1; counted when it began."""
    attempts_max: int
    created_at: datetime
    repeatable: bool
    """Whether it may run again after an attempt of which the outcome is unknown."""
    losses: int
    """Of a suspect: how many workers were lost while they had it."""

    @property
    def job(self) -> JobKey:
        return self.org_id, self.id, self.attempt


JOB_COLUMNS: Final = len(ClaimedJob.__slots__)
"""How many columns of a row are those of every job. They are handed on by position: by name it took twice as long."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The attempt succeeded."""

    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What proves it, such as a receiver's answer."""
    result: Any = None
    """What the step that waits for the job gets."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed, or its outcome is unknown."""

    code: str
    message: str
    permanent: bool = False
    """Whether trying again cannot help."""
    ambiguous: bool = False
    """Whether the outcome is unknown: it was sent, and no answer came."""
    retry_after: timedelta | None = None
    """How long to wait, where the job or its receiver asks for that."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    error_type: str | None = None
    """The type of the exception, where one was raised."""
    stack_trace: str | None = None


@dataclass(frozen=True, slots=True)
class Suspended(Succeeded):
    """The attempt ended well, and the job has not: it waits for its subtasks, or for an outside system."""

    status: Literal["blocked", "background"] = "blocked"
    timeout: timedelta | None = None
    """How long it may wait; without it, for as long as it takes."""


JobOutcome = Succeeded | Failed
NextStatus = Literal["done", "retrying", "dead", "blocked", "background"]
Claimed = TypeVar("Claimed", bound=ClaimedJob)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait after an attempt that failed: longer each time, from the shortest to the longest."""

    shortest: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(hours=1)
    factor: int = 2
    asked_max: timedelta | None = None
    """How much longer a receiver may make the wait; without it, what the job itself asks for is the wait."""

    def wait(self, attempt: int, asked: timedelta | None) -> timedelta:
        """Return how long to wait after this attempt."""
        if asked and self.asked_max is None:
            return asked
        usual = jittered(backoff(attempt, self.shortest, self.longest, self.factor))
        return max(usual, min(asked, self.asked_max)) if asked and self.asked_max is not None else usual


@dataclass(frozen=True, slots=True)
class AttemptResult(Generic[Claimed]):
    """What is written about an attempt."""

    claimed: Claimed
    outcome: JobOutcome
    status: NextStatus
    retry_after: timedelta | None = None
    """How long to wait before the next attempt, by the database's clock; in the background, how long at most."""
    output: Any = None
    """What is kept of what came out of it."""
    error: str | None = None
    """The error as it is kept, of an attempt that failed."""

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended with this attempt."""
        return self.status in {"done", "dead"}


def next_state(claimed: Claimed, outcome: JobOutcome, policy: RetryPolicy) -> AttemptResult[Claimed]:
    """Return what is to be written about this attempt."""
    if isinstance(outcome, Suspended):
        return AttemptResult(claimed, outcome, outcome.status, outcome.timeout, output=outcome.result)
    if isinstance(outcome, Succeeded):
        return AttemptResult(claimed, outcome, "done", output=outcome.result)
    error = clean_error_text(outcome.message)
    forbidden = outcome.ambiguous and not claimed.repeatable
    if outcome.permanent or forbidden or claimed.attempt >= claimed.attempts_max:
        return AttemptResult(claimed, outcome, "dead", error=error)
    wait = policy.wait(claimed.attempt, outcome.retry_after)
    return AttemptResult(claimed, outcome, "retrying", wait, error=error)
