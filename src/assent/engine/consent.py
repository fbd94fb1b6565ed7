"""When enough have agreed, whose turn it is, and who may answer. Pure.

An abstention never satisfies. When what is wanted cannot be reached any more, that is a rejection (D21); where
one of several is enough, the first who says yes or no decides.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from assent.model.actor import Actor
from assent.model.approval import ESCALATION, Decision, Delegation, Group, Request, Seat, Seated
from assent.model.mutation import Rejection

Enough = Callable[[Mapping[str, bool]], bool]
"""Which groups have agreed → whether that is enough."""


def all_of_them(agreed: Mapping[str, bool]) -> bool:
    return all(agreed.values())


def tally(request: Request, enough: Enough) -> Literal["approved", "rejected"] | None:
    """What has been decided, if it has."""
    if (senior := _first_answer(request, ESCALATION)) is not None:
        return senior
    groups = [group for group in request.groups if group.name != ESCALATION]
    if enough({group.name: has_agreed(request, group) for group in groups}):
        return "approved"
    if is_open(request, ESCALATION) or enough({group.name: may_agree(request, group) for group in groups}):
        return None
    return "rejected"


def has_agreed(request: Request, group: Group) -> bool:
    if group.mode == "any":
        return _first_answer(request, group.name) == "approved"
    return len(_answers(request, group.name, "approved")) >= group.needed


def may_agree(request: Request, group: Group) -> bool:
    agreed = _answers(request, group.name, "approved")
    if group.mode == "any" and (first := _first_answer(request, group.name)) is not None:
        return first == "approved"
    waiting = [seat for seat in request.seats_of(group.name) if seat.status in ("open", "later")]
    return len(agreed) + len(waiting) >= group.needed


def _answers(request: Request, group: str, answer: str) -> list[Decision]:
    return [d for d in request.decisions_of(group) if d.answer == answer]


def _first_answer(request: Request, group: str) -> Literal["approved", "rejected"] | None:
    for decision in request.decisions_of(group):
        if decision.answer in ("approved", "rejected"):
            return "approved" if decision.answer == "approved" else "rejected"
    return None


def is_open(request: Request, group: str) -> bool:
    return any(seat.status == "open" for seat in request.seats_of(group))


def idle_seats(request: Request) -> list[Seat]:
    """The seats of groups that have agreed, or cannot any more: nobody needs their answer."""
    groups = [group for group in request.groups if group.name != ESCALATION]
    settled = [g.name for g in groups if has_agreed(request, g) or not may_agree(request, g)]
    return [seat for seat in request.seats if seat.group in settled and seat.status in ("open", "later")]


def next_seats(request: Request) -> list[Seat]:
    """The seats whose turn has come: of the first stage that has not agreed, in sequence where it says so."""
    for stage in sorted({group.stage for group in request.groups if group.name != ESCALATION}):
        waiting = [g for g in request.groups if g.stage == stage and g.name != ESCALATION]
        if all(has_agreed(request, group) for group in waiting):
            continue
        return [seat for group in waiting for seat in _turn_of(request, group)]
    return []


def _turn_of(request: Request, group: Group) -> list[Seat]:
    later = sorted((s for s in request.seats_of(group.name) if s.status == "later"), key=lambda s: s.position)
    if group.mode != "sequence":
        return later
    return [] if is_open(request, group.name) else later[:1]


@dataclass(frozen=True, slots=True)
class Answerer:
    """Somebody who wants to answer, and as whom."""

    actor: Actor
    delegations: Sequence[Delegation] = ()
    on_behalf_of: str | None = None
    group: str | None = None


def seat_for(request: Request, who: Answerer, filled: Set[str]) -> Seat | Rejection:
    """The seat that they may fill. Nobody approves what is their own, nor fills two seats, by whatever route.

    `filled` are those who fill a seat of the round.
    """
    if refused := _may_not_answer(request, who.actor.id):
        return refused
    seat = open_seat(request, who)
    if isinstance(seat, Seat) and seat.user_id in request.originators:
        return separate(f"{seat.user_id} had a part in what is to be approved")
    sitting = {seat.user_id, who.actor.id} if isinstance(seat, Seat) else _sat(request, who)
    twice = sitting & filled
    if twice and not request.may_repeat:
        return separate(f"{min(twice)} fills another seat of this round")
    return seat


def _sat(request: Request, who: Answerer) -> set[str]:
    """As whom they would have answered, of those who had a seat here."""
    return {seat.user_id for seat in request.seats} & {who.actor.id, who.on_behalf_of}


def _may_not_answer(request: Request, user_id: str) -> Rejection | None:
    if request.claimed_by not in (None, user_id):
        return Rejection("CLAIMED", f"{request.claimed_by} has claimed it", hint="it must be released first")
    has_answered = any(decision.approver_id == user_id for decision in request.decisions)
    if has_answered and not request.may_repeat:
        return Rejection("ALREADY_DECIDED", f"{user_id} has answered this request", ("actor",))
    if user_id in request.originators:
        return separate(f"{user_id} had a part in what is to be approved")
    return None


def not_open(request_id: UUID | None, status: str | None, reason: str | None) -> Rejection:
    """Nobody can answer it any more: it was decided, or there may be another that asks about what it is now."""
    if status in ("approved", "rejected", "returned"):
        return Rejection("APPROVAL_DECIDED", f"request {request_id} is {status}", ("request_id",))
    why = f": {reason}" if reason else ""
    hint = "look for a new request that asks about what it is now"
    return Rejection("APPROVAL_VOID", f"request {request_id} is void{why}", ("request_id",), hint=hint)


def separate(message: str) -> Rejection:
    hint = "somebody else has to decide; the contract can relax this under `separation`"
    return Rejection("SEPARATION_OF_DUTIES", message, ("actor",), hint=hint)


def open_seat(request: Seated, who: Answerer) -> Seat | Rejection:
    """The seat that is theirs, or of somebody for whom they may act."""
    seats = [seat for seat in request.seats if who.group in (None, seat.group)]
    mine = [seat for seat in seats if seat.user_id == who.actor.id and who.on_behalf_of is None]
    lent = _lent(request, who)
    theirs = [seat for seat in seats if seat.user_id in lent and who.on_behalf_of in (None, seat.user_id)]
    for seat in (*mine, *theirs):
        if seat.status == "open":
            return seat
    if any(seat.status == "later" for seat in (*mine, *theirs)):
        return Rejection("NOT_YET_ASKED", f"it is not {who.actor.id}'s turn yet", ("actor",))
    asked = ", ".join(sorted({seat.user_id for seat in request.seats if seat.status == "open"})) or "nobody"
    return Rejection("POLICY_DENIED", f"{who.actor.id} is not asked; asked are: {asked}", ("actor",))


def _lent(request: Seated, who: Answerer) -> set[str]:
    """For whom they may act in this matter."""
    return {
        d.from_user for d in who.delegations if not d.entity_types or request.entity_type in d.entity_types
    }
