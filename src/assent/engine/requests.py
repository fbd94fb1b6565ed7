"""Commands about approval requests and forms: decide, claim, release, reassign, keep a draft.

Sending a form is an answer to its step, not a command of its own.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import UUID

from assent.engine.consent import SeatRules, can_be_filled, not_open, round_of, separate
from assent.engine.inputs import (
    Claim,
    ClaimForm,
    Decide,
    FormInput,
    Reassign,
    ReassignForm,
    Release,
    ReleaseForm,
    SaveDraft,
)
from assent.engine.instance import Token
from assent.engine.nodes.form import Form
from assent.engine.visit import Visit
from assent.model.approval import ApprovalRequest, Seat, SeatedRequest
from assent.model.form import FormDraft, FormRequest
from assent.model.ids import new_id
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.run import Run


S = TypeVar("S", bound=SeatedRequest)

REASSIGN = "approvals:reassign"
"""The capability to reassign a seat of another person."""


def open_request(run: "Run", request_id: UUID | None) -> tuple[ApprovalRequest, Token] | Rejection:
    """Return a request that can still be answered, with the token that waits for it."""
    request = next((r for r in run.world.requests.values() if r.id == request_id), None)
    token = next((t for t in run.instance.tokens.values() if request and t.step_id == request.step_id), None)
    if request is None:
        return not_open(request_id, None, None)
    if token is None or request.status != "pending":
        return not_open(request_id, request.status, request.reason)
    return request, token


def decide(run: "Run", command: Decide) -> Token | Rejection:
    """Return the token that waits for the decision."""
    found = open_request(run, command.request_id)
    return found if isinstance(found, Rejection) else found[1]


def reassign(run: "Run", command: Reassign) -> Rejection | None:
    """Close the seat of one person and open one for another; both stay on record."""
    found = open_request(run, command.request_id)
    if isinstance(found, Rejection):
        return found
    request, token = found
    seat = next(
        (s for s in request.seats if s.user_id == command.from_user and s.status in ("open", "later")), None
    )
    if seat is None:
        return Rejection("NOT_ASKED", f"{command.from_user} is not asked", ("from_user",))
    heir = heir_of(seat, command, new_id(run.world.now))
    seating = _seating(run, request)
    refused = _may_not_reassign(seating, seat, heir, command)
    if refused := refused or _is_needed_elsewhere(seating, seat, heir):
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


def heir_of(seat: Seat, command: Reassign | ReassignForm, heir_id: UUID) -> Seat:
    note = f"by {command.actor.id}" + (f": {command.reason}" if command.reason else "")
    return Seat(
        heir_id,
        command.to_user,
        seat.group,
        seat.position,
        f"reassigned:{command.from_user}",
        seat.status,
        command.to_email,
        seat.id,
        note,
    )


def _may_not_reassign(seating: SeatRules, seat: Seat, heir: Seat, command: Reassign) -> Rejection | None:
    if refused := _may_not_take(seating, seat, command):
        return refused
    if any(s.user_id == command.to_user and s.status != "closed" for s in seating.asked.seats):
        return Rejection("ALREADY_ASKED", f"{command.to_user} has a seat already", ("to_user",))
    refused = seating.refusal(heir, command.to_user)
    return replace(refused, path=("to_user",)) if refused else None


def _may_not_take(seating: SeatRules, seat: Seat, command: Reassign) -> Rejection | None:
    """Refuse to give away a seat that the approver could not fill, and to move another's seat to oneself."""
    actor = command.actor
    if not actor.can(REASSIGN):
        if actor.id == command.from_user:
            return seating.refusal(seat, actor.id)
        message = f"{actor.id} may give away their own seat; another's takes {REASSIGN}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    is_own = actor.id == command.from_user
    if not is_own and (actor.id == command.to_user or seating.stands_in(actor.id, command.to_user)):
        message = f"{actor.id} may not move the seat of {command.from_user} to themselves"
        return replace(separate(message), path=("to_user",))
    return None


def _is_needed_elsewhere(seating: SeatRules, seat: Seat, heir: Seat) -> Rejection | None:
    """Refuse to put a person into a seat who is needed for another one of the round."""
    request = seating.asked
    if not isinstance(request, ApprovalRequest) or request.may_repeat:
        return None
    after = [hand_on(one, seat, heir) if one.id == request.id else one for one in seating.round]
    if can_be_filled(seating.round) and not can_be_filled(after):
        message = f"{heir.user_id} is needed for another seat of this round, which no other member could fill"
        return Rejection("SEPARATION_OF_DUTIES", message, ("to_user",))
    return None


def seat_rules_of(run: "Run", request_id: UUID) -> SeatRules | Rejection:
    """Return who may fill the seats of a request that can still be answered."""
    found = open_request(run, request_id)
    return found if isinstance(found, Rejection) else _seating(run, found[0])


def _seating(run: "Run", request: ApprovalRequest) -> SeatRules:
    around = round_of(run.world.requests.values(), request.slot, request.generation)
    return SeatRules.of(run.world, run.plan.workflow.key, request, around)


def claim(run: "Run", command: Claim) -> Rejection | None:
    found = open_request(run, command.request_id)
    if isinstance(found, Rejection):
        return found
    request, _ = found
    seating = _seating(run, request)
    seat = seating.find(command.actor.id)
    if isinstance(seat, Rejection):
        return seat
    if request.mode != "any":
        message = "several must answer: a claim would keep them from it"
        return Rejection("NOT_CLAIMABLE", message, ("request_id",))
    if request.claimed_by != command.actor.id and seating.claim_holds():
        return Rejection("CLAIMED", f"{request.claimed_by} was first", ("request_id",))
    run.world.put(request.claim(command.actor.id, run.world.now))
    return None


def release(run: "Run", command: Release) -> Rejection | None:
    found = open_request(run, command.request_id)
    if isinstance(found, Rejection):
        return found
    request, _ = found
    if request.claimed_by not in (None, command.actor.id) and not command.actor.can(REASSIGN):
        message = f"{request.claimed_by} has claimed it; another's claim takes {REASSIGN}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    run.world.put(request.unclaim())
    return None


REASSIGN_FORM = "forms:reassign"
"""The capability to reassign a form of another person, and to release another's claim."""


def open_form(run: "Run", command: FormInput) -> tuple[FormRequest, Visit] | Rejection:
    """Return a form that can still be filled in, with the visit that waits for it."""
    form = run.world.forms.get(command.step_id) if command.step_id else None
    token = next((t for t in run.instance.tokens.values() if form and t.step_id == form.id), None)
    if form is None or token is None:
        return Rejection("FORM_CLOSED", f"form {command.step_id} is not open any more", ("step_id",))
    return form, run.visit(token, command.actor)


def claim_form(run: "Run", command: ClaimForm) -> Rejection | None:
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    filler = _handler(visit).filler(visit, form)
    if isinstance(filler, Rejection):
        return filler
    run.world.put(form.claim(command.actor.id, run.world.now))
    return None


def release_form(run: "Run", command: ReleaseForm) -> Rejection | None:
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    if command.actor.can(REASSIGN_FORM) or form.claimed_by == command.actor.id:
        run.world.put(form.unclaim())
        return None
    if form.claimed_by is not None:
        message = f"{form.claimed_by} has claimed it; another's claim takes {REASSIGN_FORM}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    # There is no claim, so there is nothing to do; but the actor must be able to fill the form in.
    filler = _handler(visit).filler(visit, form)
    return filler if isinstance(filler, Rejection) else None


def save_draft(run: "Run", command: SaveDraft) -> Rejection | None:
    """Keep a draft as it is; its problems are recorded and refuse nothing."""
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    filler = _handler(visit).filler(visit, form)
    if isinstance(filler, Rejection):
        return filler
    problems = tuple(_handler(visit).problems(command.data))
    run.world.put(form.evolve(draft=FormDraft(command.data, command.actor.id, run.world.now, problems)))
    return None


def reassign_form(run: "Run", command: ReassignForm) -> Rejection | None:
    """Close the seat of one person and open one for another; both stay on record."""
    found = open_form(run, command)
    if isinstance(found, Rejection):
        return found
    form, visit = found
    if refused := _may_not_reassign_form(form, command):
        return refused
    seat = next(s for s in form.seats if s.user_id == command.from_user and s.status == "open")
    heir = heir_of(seat, command, new_id(run.world.now))
    form = hand_on(form, seat, heir)
    run.world.put(form)
    run.notify(visit.token, form, [heir])
    return None


def _may_not_reassign_form(form: FormRequest, command: ReassignForm) -> Rejection | None:
    if command.actor.id != command.from_user and not command.actor.can(REASSIGN_FORM):
        message = f"{command.actor.id} may give away what they were asked; another's takes {REASSIGN_FORM}"
        return Rejection("POLICY_DENIED", message, ("actor",))
    asked = {seat.user_id for seat in form.seats if seat.status == "open"}
    if command.from_user not in asked:
        return Rejection("NOT_ASKED", f"{command.from_user} is not asked", ("from_user",))
    if command.to_user in asked:
        return Rejection("ALREADY_ASKED", f"{command.to_user} is asked already", ("to_user",))
    return None


def _handler(visit: Visit) -> Form:
    return cast(Form, visit.node.handler)
