"""The rights of the people on whose behalf a batch moves tokens, read once for all of them."""

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
from assent.model.actor import SYSTEM_ID, Authority, Principal
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
    """Give every run the rights that its people have now: one statement for the batch, none where it needs nobody."""
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
    """Events name who caused them; what that actor may do is what was read."""
    if _authority_of(given) is None:
        return given
    actor = job.run.world.actors.get(given.actor.id)
    return given if actor is None else replace(given, actor=actor)
