"""One instance compared with its steps, and corrected where it differs (WF-15)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from assent.cli.options import GivenId
from assent.cli.refusals import as_json, rejection_from
from assent.cli.session import ActorSession, find_instance_meant
from assent.model.mutation import Rejection
from assent.operations.health import find_stuck

STUCK_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a comparison found, and what was done about it."""

    instance_id: UUID
    differences: Mapping[str, tuple[Any, Any]]
    """Field → as it was kept, and as the steps make it."""
    changed: bool = False
    rejection: Rejection | None = None

    def to_json(self) -> dict[str, Any]:
        found = {
            "instance_id": self.instance_id,
            "changed": self.changed,
            "differences": {
                name: {"kept": kept, "rebuilt": rebuilt} for name, (kept, rebuilt) in self.differences.items()
            },
        }
        return found | ({"error": as_json(self.rejection)} if self.rejection else {})


async def named_instances(session: ActorSession, given: Sequence[GivenId]) -> list[UUID]:
    async with session.reading() as connection:
        return [await find_instance_meant(session, connection, one) for one in given]


async def stuck_instances(session: ActorSession, still_for: timedelta) -> list[UUID]:
    async with session.reading() as connection:
        found = await find_stuck(connection, session.org_id, still_for, STUCK_MAX)
    return [finding.instance_id for finding in found]


async def rebuild_one(session: ActorSession, instance_id: UUID, *, check: bool) -> Rebuilt:
    """Rebuild an instance; return an error instead of raising it, so that the others are rebuilt."""
    try:
        differences = await session.commands.operations.compare(instance_id)
        if check or not differences:
            return Rebuilt(instance_id, differences)
        # Under its lock now: a command that ran meanwhile may have corrected it.
        changed = await session.commands.operations.rebuild(instance_id)
        return Rebuilt(instance_id, differences if changed else {}, changed)
    except Exception as error:
        surprise = Rejection("UNEXPECTED", f"{type(error).__name__}: {error}")
        return Rebuilt(instance_id, {}, rejection=rejection_from(error) or surprise)
