"""Who may fill a seat now: one rule for decisions, claims, reassignments and forms. Pure.

`assent.waiting_for` says the same in SQL, for the inbox; a test compares the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assent.engine.consent import separate
from assent.engine.rounds import fillers
from assent.model.approval import STARTER, ApprovalRequest, Delegation, Presence, Seat, SeatedRequest
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import World

NO_LONGER_QUALIFIED = "NO_LONGER_QUALIFIED"
"""The code where a person was asked by what they are not any more."""


@dataclass(frozen=True, slots=True)
class SeatRules:
    """A request or a form, with everything that decides who may fill its seats."""

    asked: SeatedRequest
    workflow: str
    round: Sequence[ApprovalRequest] = ()
    """The requests beside it, itself included; a form has none."""
    delegations: Mapping[str, Sequence[Delegation]] = field(default_factory=dict)
    """Those who act here → their delegations that hold now."""
    roll: Presence = field(default_factory=Presence)
    is_new: bool = False
    """Whether it was asked in the transaction that is under way: its people were found as they are now."""

    @classmethod
    def of(
        cls, world: "World", workflow: str, asked: SeatedRequest, around: Sequence[ApprovalRequest] = ()
    ) -> "SeatRules":
        return cls(asked, workflow, around, world.delegations, world.roll, world.is_new(asked))

    def refusal(self, seat: Seat, user_id: str) -> Rejection | None:
        """Why this person may not fill this seat now, as its owner or in their place; none if they may."""
        names = {user_id, seat.user_id}
        return (
            self._had_a_part(names)
            or self._fills_another(names)
            or self._does_not_stand_in(seat, user_id)
            or self._has_left(seat, user_id)
        )

    def find(
        self, user_id: str, on_behalf_of: str | None = None, group: str | None = None
    ) -> Seat | Rejection:
        """The first seat that this person may fill, their own before those of others, or why there is none."""
        seats = [seat for seat in self.asked.seats if group in (None, seat.group)]
        mine = [seat for seat in seats if seat.user_id == user_id and on_behalf_of is None]
        lenders = {delegation.from_user for delegation in self.delegations.get(user_id, ())}
        lent = [s for s in seats if s.user_id in lenders and on_behalf_of in (None, s.user_id)]
        open_seats = [seat for seat in (*mine, *lent) if seat.status == "open"]
        later = [seat for seat in (*mine, *lent) if seat.status == "later"]
        refusals = []
        for seat in open_seats or later:
            refused = self.refusal(seat, user_id)
            if refused is None:
                return seat if seat.status == "open" else _not_yet(user_id)
            refusals.append(refused)
        return refusals[0] if refusals else self._is_not_asked(user_id, on_behalf_of)

    def claim_holds(self) -> bool:
        """Return whether the holder of the claim could still answer; another claim does not count."""
        claimant = self.asked.claimed_by
        return claimant is not None and isinstance(self.find(claimant), Seat)

    def stands_in(self, user_id: str, owner: str) -> bool:
        """Whether a delegation from the owner to this person is about this matter."""
        return any(
            delegation.from_user == owner
            and (not delegation.entity_types or self.asked.entity_type in delegation.entity_types)
            and (not delegation.workflows or self.workflow in delegation.workflows)
            for delegation in self.delegations.get(user_id, ())
        )

    def _had_a_part(self, names: set[str]) -> Rejection | None:
        if not isinstance(self.asked, ApprovalRequest) or not (authors := names & self.asked.originators):
            return None
        return separate(f"{min(authors)} had a part in what is to be approved")

    def _fills_another(self, names: set[str]) -> Rejection | None:
        if not isinstance(self.asked, ApprovalRequest) or self.asked.may_repeat:
            return None
        twice = names & fillers(self.round)
        return separate(f"{min(twice)} fills another seat of this round") if twice else None

    def _does_not_stand_in(self, seat: Seat, user_id: str) -> Rejection | None:
        if seat.user_id == user_id or self.stands_in(user_id, seat.user_id):
            return None
        return Rejection("POLICY_DENIED", f"{user_id} does not stand in for {seat.user_id} here", ("actor",))

    def _has_left(self, seat: Seat, user_id: str) -> Rejection | None:
        is_checked = seat.via != STARTER and not self.is_new
        if is_checked and not self.roll.has(seat.user_id, seat.role):
            was = f"was asked as {seat.role} and is no active {seat.role}" if seat.role else "is not active"
            return unqualified(f"{seat.user_id} {was} any more")
        if seat.user_id != user_id and not self.roll.has(user_id):
            return unqualified(f"{user_id} is not active any more")
        return None

    def _is_not_asked(self, user_id: str, on_behalf_of: str | None) -> Rejection:
        left_out = {skipped["user_id"] for skipped in self.asked.skipped}
        sat = ({seat.user_id for seat in self.asked.seats} | left_out) & {user_id, on_behalf_of or user_id}
        if sat and (twice := self._fills_another(sat)):
            return twice
        asked = ", ".join(sorted({s.user_id for s in self.asked.seats if s.status == "open"})) or "no member"
        return Rejection("POLICY_DENIED", f"{user_id} is not asked; asked are: {asked}", ("actor",))


def seat_for(
    seating: SeatRules, user_id: str, on_behalf_of: str | None = None, group: str | None = None
) -> Seat | Rejection:
    """The seat of a request in which this person may answer, or why there is none."""
    request = seating.asked
    assert isinstance(request, ApprovalRequest)
    if request.claimed_by != user_id and seating.claim_holds():
        return Rejection("CLAIMED", f"{request.claimed_by} has claimed it", hint="it must be released first")
    has_answered = any(decision.approver_id == user_id for decision in request.decisions)
    if has_answered and not request.may_repeat:
        return Rejection("ALREADY_DECIDED", f"{user_id} has answered this request", ("actor",))
    if user_id in request.originators:
        return separate(f"{user_id} had a part in what is to be approved")
    return seating.find(user_id, on_behalf_of, group)


def unqualified(message: str) -> Rejection:
    hint = "if no other member is asked, a holder of `approvals:reassign` can ask another person instead"
    return Rejection(NO_LONGER_QUALIFIED, message, ("actor",), hint=hint)


def _not_yet(user_id: str) -> Rejection:
    return Rejection("NOT_YET_ASKED", f"it is not {user_id}'s turn yet", ("actor",))
