"""What is done about a request for approval besides its step's own course: decide, reassign, claim, release."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from assent.engine.consent import not_open, separate
from assent.engine.inputs import Claim, Decide, Reassign, ReassignForm, Release
from assent.engine.instance import Token
from assent.engine.rounds import can_be_filled, round_of
from assent.engine.seats import SeatRules
from assent.model.approval import ApprovalRequest, Seat, SeatedRequest
from assent.model.ids import new_id
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.run import Run

S = TypeVar("S", bound=SeatedRequest)

REASSIGN = "approvals:reassign"
"""The capability to ask somebody else in another's place."""


def open_request(run: "Run", request_id: UUID | None) -> tuple[ApprovalRequest, Token] | Rejection:
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
    heir = heir_of(seat, given, new_id(run.world.now))
    seating = _seating(run, request)
    if refused := _may_not_reassign(seating, seat, heir, given) or _is_needed_elsewhere(seating, seat, heir):
        return refused
    request = hand_on(request, seat, heir)
    run.world.put(request)
    run.notify(token, request, [heir] if heir.status == "open" else [])
    return None


def hand_on(asked: S, seat: Seat, heir: Seat) -> S:
    """Return a request or a form with a seat closed, another in its place, and no claim of the former owner."""
    closed = seat.evolve(status="closed", note=f"reassigned to {heir.user_id} {heir.note}")
    handed_on = asked.put_seats([closed, heir])
    return handed_on.unclaim() if asked.claimed_by == seat.user_id else handed_on


def heir_of(seat: Seat, given: Reassign | ReassignForm, heir_id: UUID) -> Seat:
    note = f"by {given.actor.id}" + (f": {given.reason}" if given.reason else "")
    return Seat(
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


def _may_not_reassign(seating: SeatRules, seat: Seat, heir: Seat, given: Reassign) -> Rejection | None:
    if refused := _may_not_take(seating, seat, given):
        return refused
    if any(s.user_id == given.to_user and s.status != "closed" for s in seating.asked.seats):
        return Rejection("ALREADY_ASKED", f"{given.to_user} has a seat already", ("to_user",))
    refused = seating.refusal(heir, given.to_user)
    return replace(refused, path=("to_user",)) if refused else None


def _may_not_take(seating: SeatRules, seat: Seat, given: Reassign) -> Rejection | None:
    """An approver gives away their own seat while they could fill it; another's is never moved to the mover."""
    actor = given.actor
    if not actor.can(REASSIGN):
        if actor.id == given.from_user:
            return seating.refusal(seat, actor.id)
        message = f"{actor.id} may give away their own seat; another's takes {REASSIGN}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    is_own = actor.id == given.from_user
    if not is_own and (actor.id == given.to_user or seating.stands_in(actor.id, given.to_user)):
        message = f"{actor.id} may not move the seat of {given.from_user} to themselves"
        return replace(separate(message), path=("to_user",))
    return None


def _is_needed_elsewhere(seating: SeatRules, seat: Seat, heir: Seat) -> Rejection | None:
    """Nobody is put into a seat that takes them from one that nobody else could fill."""
    request = seating.asked
    if not isinstance(request, ApprovalRequest) or request.may_repeat:
        return None
    after = [hand_on(one, seat, heir) if one.id == request.id else one for one in seating.round]
    if can_be_filled(seating.round) and not can_be_filled(after):
        message = f"{heir.user_id} is needed for another seat of this round, which nobody else could fill"
        return Rejection("SEPARATION_OF_DUTIES", message, ("to_user",))
    return None


def _seating(run: "Run", request: ApprovalRequest) -> SeatRules:
    around = round_of(run.world.requests.values(), request.slot, request.generation)
    return SeatRules.of(run.world, run.plan.workflow.key, request, around)


def claim(run: "Run", given: Claim) -> Rejection | None:
    found = open_request(run, given.request_id)
    if isinstance(found, Rejection):
        return found
    request, _ = found
    seating = _seating(run, request)
    seat = seating.find(given.actor.id)
    if isinstance(seat, Rejection):
        return seat
    if request.mode != "any":
        message = "several must answer: a claim would keep them from it"
        return Rejection("NOT_CLAIMABLE", message, ("request_id",))
    if request.claimed_by != given.actor.id and seating.claim_holds():
        return Rejection("CLAIMED", f"{request.claimed_by} was first", ("request_id",))
    run.world.put(request.claim(given.actor.id, run.world.now))
    return None


def release(run: "Run", given: Release) -> Rejection | None:
    found = open_request(run, given.request_id)
    if isinstance(found, Rejection):
        return found
    request, _ = found
    if request.claimed_by not in (None, given.actor.id) and not given.actor.can(REASSIGN):
        message = f"{request.claimed_by} has claimed it; another's claim takes {REASSIGN}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    run.world.put(request.unclaim())
    return None
