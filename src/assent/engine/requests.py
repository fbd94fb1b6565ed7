"""What is done about a request for approval besides its step's own course: decide, reassign, claim, release."""

from copy import deepcopy
from typing import TYPE_CHECKING
from uuid import UUID

from assent.engine.consent import not_open
from assent.engine.inputs import Claim, Decide, Reassign, ReassignForm, Release
from assent.engine.instance import Token
from assent.engine.rounds import can_be_filled, fillers, round_of
from assent.model.approval import Request, Seat, Seated
from assent.model.ids import new_id
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.run import Run

REASSIGN = "approvals:reassign"
"""The capability to ask somebody else in another's place."""


def open_request(run: "Run", request_id: UUID | None) -> tuple[Request, Token] | Rejection:
    """A request that can still be answered, with the token that waits for it."""
    request = next((r for r in run.world.requests.values() if r.id == request_id), None)
    token = next((t for t in run.instance.tokens.values() if request and t.step_id == request.step_id), None)
    if request is None:
        return not_open(request_id, None, None)
    if token is None or request.status != "pending":
        return not_open(request_id, request.status, request.reason)
    return request, token


def decide(run: "Run", given: Decide) -> Token | Rejection:
    """The token that the decision is for."""
    found = open_request(run, given.request_id)
    return found if isinstance(found, Rejection) else found[1]


def reassign(run: "Run", given: Reassign) -> Rejection | None:
    """Close somebody's seat and open one for another; the record keeps both."""
    found = open_request(run, given.request_id)
    if isinstance(found, Rejection):
        return found
    request, token = found
    seat = next(
        (s for s in request.seats if s.user_id == given.from_user and s.status in ("open", "later")), None
    )
    if seat is None:
        return Rejection("NOT_ASKED", f"{given.from_user} is not asked", ("from_user",))
    around = round_of(run.world.requests.values(), request.slot, request.generation)
    if refused := _may_reassign(request, given) or _sits_elsewhere(around, request, seat, given):
        return refused
    heir = hand_on(request, seat, given, new_id(run.world.now))
    if request.claimed_by == given.from_user:
        request.unclaim()
    run.notify(token, request, [heir] if heir.status == "open" else [])
    return None


def hand_on(request: Seated, seat: Seat, given: Reassign | ReassignForm, heir_id: UUID) -> Seat:
    """Close a seat and put another's in its place."""
    note = f"by {given.actor.id}" + (f": {given.reason}" if given.reason else "")
    heir = Seat(
        heir_id,
        given.to_user,
        seat.group,
        seat.position,
        f"reassigned:{given.from_user}",
        seat.status,
        given.to_email,
        seat.id,
        note,
    )
    request.put_seats([seat.evolve(status="closed", note=f"reassigned to {given.to_user} {note}"), heir])
    return heir


def _may_reassign(request: Request, given: Reassign) -> Rejection | None:
    if given.actor.id != given.from_user and not given.actor.can(REASSIGN):
        message = f"{given.actor.id} may give away their own seat; another's takes {REASSIGN}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    if given.to_user in request.originators:
        message = f"{given.to_user} had a part in what is to be approved"
        return Rejection("SEPARATION_OF_DUTIES", message, ("to_user",))
    if any(s.user_id == given.to_user and s.status != "closed" for s in request.seats):
        return Rejection("ALREADY_ASKED", f"{given.to_user} has a seat already", ("to_user",))
    return None


def _sits_elsewhere(around: list[Request], request: Request, seat: Seat, given: Reassign) -> Rejection | None:
    """Nobody is put into a seat that they may not fill, or that takes them from one that nobody else could."""
    if request.may_repeat:
        return None
    if given.to_user in fillers(around):
        message = f"{given.to_user} fills another seat of this round"
        return Rejection("SEPARATION_OF_DUTIES", message, ("to_user",))
    after = deepcopy(around)
    hand_on(next(found for found in after if found.id == request.id), seat, given, seat.id)
    if can_be_filled(around) and not can_be_filled(after):
        message = f"{given.to_user} is needed for another seat of this round, which nobody else could fill"
        return Rejection("SEPARATION_OF_DUTIES", message, ("to_user",))
    return None


def claim(run: "Run", given: Claim) -> Rejection | None:
    found = open_request(run, given.request_id)
    if isinstance(found, Rejection):
        return found
    request, _ = found
    if not _is_asked(run, request, given.actor.id):
        return Rejection("POLICY_DENIED", f"{given.actor.id} is not asked", ("actor",))
    if request.mode != "any":
        message = "several must answer: a claim would keep them from it"
        return Rejection("NOT_CLAIMABLE", message, ("request_id",))
    if request.claimed_by not in (None, given.actor.id):
        return Rejection("CLAIMED", f"{request.claimed_by} was first", ("request_id",))
    request.claimed_by, request.claimed_at, request.changed = given.actor.id, run.world.now, True
    return None


def release(run: "Run", given: Release) -> Rejection | None:
    found = open_request(run, given.request_id)
    if isinstance(found, Rejection):
        return found
    request, _ = found
    if request.claimed_by not in (None, given.actor.id) and not given.actor.can(REASSIGN):
        message = f"{request.claimed_by} has claimed it; another's claim takes {REASSIGN}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    request.unclaim()
    return None


def _is_asked(run: "Run", request: Request, user_id: str) -> bool:
    lent = {delegation.from_user for delegation in run.world.delegations.get(user_id, ())}
    return any(seat.status == "open" and seat.user_id in {user_id, *lent} for seat in request.seats)
