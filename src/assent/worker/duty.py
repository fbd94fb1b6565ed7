"""What every background duty looks like: a name, a pace, and a run that says what it did."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from assent.store.database import Database
from assent.worker.options import Options


class Processing(Protocol):
    """The runtime's part of the background work; `assent.runtime.Runtime` is one."""

    async def process_events(self, limit: int) -> int:
        """Claim and process at most so many events; answers how many it processed."""

    async def recover_batches(self, limit: int) -> int:
        """Take up at most so many batches whose worker died; answers how many instances were in them."""


Repair = Callable[[str, UUID], Awaitable[object]]
"""Does something about one instance, named by org and id."""


@dataclass(frozen=True, slots=True)
class Repairs:
    """The runtime's three answers to an instance that is stuck."""

    rebuild_projection: Repair
    re_enqueue: Repair
    force_fail: Repair


@dataclass(frozen=True, slots=True)
class Workplace:
    """What duties work with. Without a runtime there are no events to process and no repairs."""

    database: Database
    options: Options = field(default_factory=Options)
    runtime: Processing | None = None
    repairs: Repairs | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """When a duty runs."""

    interval_s: float
    """How long it waits after a run that left nothing to do; polling guarantees what notifying promises."""
    channels: tuple[str, ...] = ()
    """Notifications that end the wait."""
    pause_s: float = 0.0
    """How long it waits while there is more: a sweep leaves room for the work."""
    lanes: int = 1
    """How many of its loops run beside each other in one process."""


@dataclass(frozen=True, slots=True)
class Done:
    """What one run did."""

    count: int = 0
    more: bool = False
    """Whether the next run may find something at once."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The count by kind, for duties that do several things."""


class Duty(Protocol):
    """Work that is done again and again, maybe in several processes at once."""

    name: str
    pace: Pace

    def __init__(self, place: Workplace) -> None: ...

    async def run_once(self) -> Done:
        """Do at most one batch; an error means that its transaction did nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a duty, for whoever keeps count."""

    duty: str
    took_s: float
    done: Done = field(default_factory=Done)
    error: Exception | None = None


Observer = Callable[[Run], None]
