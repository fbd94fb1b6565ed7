"""The rolls of instances: who of those who act on seats now, or for whom they act, is there, and as what."""

from collections.abc import Iterable, Sequence
from typing import Final

from assent.engine.inputs import Advance, Claim, ClaimForm, Decide, Input, Reassign, ReleaseForm, SaveDraft
from assent.engine.visit import World
from assent.model.approval import STARTER, Presence, SeatedRequest
from assent.people.directory import Directory
from assent.people.presence import find_present
from assent.runtime.batch import Execution
from assent.store.database import Connection

ACTS: Final = (Advance, Decide, Claim, Reassign, ClaimForm, ReleaseForm, SaveDraft)
"""The inputs by which people act on seats."""


async def load_rolls(connection: Connection, directory: Directory, jobs: Sequence[Execution]) -> None:
    """Ask the directory once for the whole batch, after requests, forms and delegations are loaded."""
    wanted = [(job, set(_concerned(job.run.world, job.work.inputs))) for job in jobs]
    everybody = {(job.work.org_id, user_id, role) for job, found in wanted for user_id, role in found}
    present = await find_present(connection, directory, everybody)
    for job, found in wanted:
        here = {(user_id, role) for user_id, role in found if (job.work.org_id, user_id, role) in present}
        job.run.world.roll = Presence(frozenset(here))


def delegates_of(world: World, inputs: Iterable[Input]) -> set[str]:
    """Those who may act for another: people, and no service accounts."""
    actors = {given.actor.id for given in inputs if isinstance(given, ACTS) and given.actor.kind == "user"}
    return actors | _claimants(world) if actors else set()


def _claimants(world: World) -> set[str]:
    """Those who have claimed what is open here: a claim holds while they could answer."""
    return {one.claimed_by for one in _open(world) if one.claimed_by is not None}


def _concerned(world: World, inputs: Sequence[Input]) -> Iterable[tuple[str, str | None]]:
    """The people and roles on whom it depends whether they may."""
    actors = {given.actor.id for given in inputs if isinstance(given, ACTS)}
    if not actors:
        return
    actors |= _claimants(world)
    reassigned = [given for given in inputs if isinstance(given, Reassign)]
    owners = actors | {
        delegation.from_user for actor in actors for delegation in world.delegations.get(actor, ())
    }
    owners |= {given.from_user for given in reassigned}
    for asked in _open(world):
        for seat in asked.seats:
            if seat.user_id in owners and seat.status in ("open", "later") and seat.via != STARTER:
                yield seat.user_id, seat.role
    yield from ((actor, None) for actor in actors if world.delegations.get(actor))
    yield from ((given.to_user, None) for given in reassigned)


def _open(world: World) -> list[SeatedRequest]:
    pending = [request for request in world.requests.values() if request.status == "pending"]
    return [*pending, *world.forms.values()]
