"""Consent: when enough have agreed, and whose turn it is; who may answer is in `seats`. Pure.

An abstention never satisfies. When what is wanted cannot be reached any more, that is a rejection (D21); where
one of several is enough, the first who says yes or no decides.
"""

from collections.abc import Callable, Mapping
from typing import Literal
from uuid import UUID

from assent.model.approval import ESCALATION, ApprovalRequest, Decision, Group, Seat
from assent.model.mutation import Rejection

Enough = Callable[[Mapping[str, bool]], bool]
"""Which groups have agreed → whether that is enough."""


def all_of_them(agreed: Mapping[str, bool]) -> bool:
    return all(agreed.values())


def tally(request: ApprovalRequest, enough: Enough) -> Literal["approved", "rejected"] | None:
    """Return the result of the decisions, or None while it is open."""
    if (senior := _first_answer(request, ESCALATION)) is not None:
        return senior
    groups = [group for group in request.groups if group.name != ESCALATION]
    if enough({group.name: has_agreed(request, group) for group in groups}):
        return "approved"
    if is_open(request, ESCALATION) or enough({group.name: may_agree(request, group) for group in groups}):
        return None
    return "rejected"


def has_agreed(request: ApprovalRequest, group: Group) -> bool:
    if group.mode == "any":
        return _first_answer(request, group.name) == "approved"
    return len(_answers(request, group.name, "approved")) >= group.needed


def may_agree(request: ApprovalRequest, group: Group) -> bool:
    agreed = _answers(request, group.name, "approved")
    if group.mode == "any" and (first := _first_answer(request, group.name)) is not None:
        return first == "approved"
    waiting = [seat for seat in request.seats_of(group.name) if seat.status in ("open", "later")]
    return len(agreed) + len(waiting) >= group.needed


def _answers(request: ApprovalRequest, group: str, answer: str) -> list[Decision]:
    return [d for d in request.decisions_of(group) if d.answer == answer]


def _first_answer(request: ApprovalRequest, group: str) -> Literal["approved", "rejected"] | None:
    for decision in request.decisions_of(group):
        if decision.answer in ("approved", "rejected"):
            return "approved" if decision.answer == "approved" else "rejected"
    return None


def is_open(request: ApprovalRequest, group: str) -> bool:
    return any(seat.status == "open" for seat in request.seats_of(group))


def idle_seats(request: ApprovalRequest) -> list[Seat]:
    """Return the open seats of groups that have agreed, or cannot agree any more."""
    groups = [group for group in request.groups if group.name != ESCALATION]
    settled = [g.name for g in groups if has_agreed(request, g) or not may_agree(request, g)]
    return [seat for seat in request.seats if seat.group in settled and seat.status in ("open", "later")]


def next_seats(request: ApprovalRequest) -> list[Seat]:
    """Return the seats whose turn has come: of the first stage that has not agreed, in sequence if the mode says so."""
    for stage in sorted({group.stage for group in request.groups if group.name != ESCALATION}):
        waiting = [g for g in request.groups if g.stage == stage and g.name != ESCALATION]
        if all(has_agreed(request, group) for group in waiting):
            continue
        return [seat for group in waiting for seat in _turn_of(request, group)]
    return []


def _turn_of(request: ApprovalRequest, group: Group) -> list[Seat]:
    later = sorted((s for s in request.seats_of(group.name) if s.status == "later"), key=lambda s: s.position)
    if group.mode != "sequence":
        return later
    return [] if is_open(request, group.name) else later[:1]


def not_open(request_id: UUID | None, status: str | None, reason: str | None) -> Rejection:
    """Return why a request cannot be answered any more: it was decided, or is void."""
    if status in ("approved", "rejected", "returned"):
        return Rejection("APPROVAL_DECIDED", f"request {request_id} is {status}", ("request_id",))
    why = f": {reason}" if reason else ""
    hint = "look for a new request that asks about what it is now"
    return Rejection("APPROVAL_VOID", f"request {request_id} is void{why}", ("request_id",), hint=hint)


def separate(message: str) -> Rejection:
    hint = "another member has to decide; the contract can relax this under `separation`"
    return Rejection("SEPARATION_OF_DUTIES", message, ("actor",), hint=hint)
