"""The people of a batch: the rights of those on whose behalf tokens move, and which of those who act are present."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from assent.engine.inputs import (
    Advance,
    Claim,
    ClaimForm,
    Decide,
    Drifted,
    Input,
    Reassign,
    ReassignForm,
    Release,
    ReleaseForm,
    SaveDraft,
    Start,
)
from assent.engine.visit import World
from assent.model.actor import SYSTEM_ID, Authority, Principal
from assent.model.approval import STARTER, Presence, SeatedRequest
from assent.people.delegations import find_present
from assent.people.directory import Directory, OrgPrincipal
from assent.runtime.batch import Execution
from assent.store.database import Connection

_ACTS_OF_PEOPLE: Final = (
    Advance,
    Claim,
    ClaimForm,
    Decide,
    Reassign,
    ReassignForm,
    Release,
    ReleaseForm,
    SaveDraft,
    Start,
)
"""Commands after which a token moves with the rights of their caller, which came with them."""


async def load_actors(connection: Connection, directory: Directory, jobs: Sequence[Execution]) -> None:
    """Give every run the rights that its people have now: one statement for the batch, or none."""
    wanted = {(job.work.org_id, one.id): one for job in jobs for one in _principals(job)}
    asked: list[OrgPrincipal] = [(org_id, one) for (org_id, _), one in wanted.items()]
    found = await directory.actors(connection, asked) if asked else {}
    for job in jobs:
        keys = ((job.work.org_id, one.id) for one in _principals(job))
        actors = {key[1]: found[key] for key in keys if key in found}
        if (command := job.work.command) is not None:
            actors[command.actor.id] = command.actor
        job.run.world.actors = actors
        job.run.inputs = deque(_with_rights(job, given) for given in job.run.inputs)


def _principals(job: Execution) -> Iterable[Principal]:
    """Yield everybody whose rights are to be read; the system has every right, and a caller brought theirs along."""
    caller = job.work.command.actor.id if job.work.command is not None else SYSTEM_ID
    return (one for one in _everybody(job) if one.id not in (SYSTEM_ID, caller))


def _everybody(job: Execution) -> Iterable[Principal]:
    """Yield everybody whose rights a step of this batch may ask for."""
    yield from job.run.plan.service_accounts
    moved_by_others = any(not isinstance(given, _ACTS_OF_PEOPLE) for given in job.work.inputs)
    for token in job.run.instance.tokens.values():
        if token.authority.command is not None:
            yield token.authority.requester
        if moved_by_others:
            yield token.authority.principal
    for given in job.work.inputs:
        if (authority := _authority_of(given)) is not None:
            yield from authority.principals


def _authority_of(given: Input) -> Authority | None:
    return given.authority if isinstance(given, Start | Drifted) else None


def _with_rights(job: Execution, given: Input) -> Input:
    """Return an event's input with the rights of the actor that it names, as they were read."""
    if _authority_of(given) is None:
        return given
    actor = job.run.world.actors.get(given.actor.id)
    return given if actor is None else replace(given, actor=actor)


ACTS: Final = (Advance, Decide, Claim, Reassign, ClaimForm, ReleaseForm, SaveDraft)
"""The inputs by which people act on seats."""


async def load_rolls(connection: Connection, directory: Directory, jobs: Sequence[Execution]) -> None:
    """Ask the directory once for the whole batch, after requests, forms and delegations are loaded."""
    wanted = [(job, set(_concerned(job.run.world, job.work.inputs))) for job in jobs]
    everybody = {(job.work.org_id, user_id, role) for job, found in wanted for user_id, role in found}
    present = await find_present(connection, directory, everybody, dict(map(_acting, _commanded(jobs))))
    for job, found in wanted:
        here = {(user_id, role) for user_id, role in found if (job.work.org_id, user_id, role) in present}
        job.run.world.roll = Presence(frozenset(here))


def _commanded(jobs: Sequence[Execution]) -> Iterable[Execution]:
    return (job for job in jobs if job.work.opened is not None and job.work.command is not None)


def _acting(job: Execution) -> tuple[tuple[str, str], tuple[str, Sequence[str]] | None]:
    """Return what the member is now who gave a command: it was read with the target."""
    opened, command = job.work.opened, job.work.command
    assert opened is not None
    assert command is not None
    kind = opened["acting_kind"]
    return (job.work.org_id, command.actor.id), (kind, opened["acting_roles"]) if kind is not None else None


def delegates_of(world: World, inputs: Iterable[Input]) -> set[str]:
    """Return the actors who may act for another: people, and no service accounts."""
    actors = {given.actor.id for given in inputs if isinstance(given, ACTS) and given.actor.kind == "user"}
    return actors | _claimants(world) if actors else set()


def _claimants(world: World) -> set[str]:
    """Return the claimants of what is open here: a claim holds while the claimant could answer."""
    return {one.claimed_by for one in _open(world) if one.claimed_by is not None}


def _concerned(world: World, inputs: Sequence[Input]) -> Iterable[tuple[str, str | None]]:
    """Yield the people and roles whose presence decides whether the actors may act."""
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
