"""Consent: when enough have agreed, whose turn it is, whether a round can be filled, and who may fill a seat now. Pure.

An abstention never satisfies. When what is wanted cannot be reached any more, that is a rejection (D21); where
one of several is enough, the first who says yes or no decides.

A person fills one seat of a round. A seat that no person may fill would wait for ever, unnoticed. So the whole round is
checked before people are asked, and a person who is needed for one seat does not fill another.

`SeatRules` is one rule for decisions, claims, reassignments and forms. `assent.waiting_for` says the same in SQL, for
the inbox; a test compares the two.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from assent.model.approval import (
    ESCALATION,
    STARTER,
    ApprovalRequest,
    Decision,
    Delegation,
    Group,
    Presence,
    Seat,
    SeatedRequest,
)
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.visit import World


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


ANOTHER_WAS_FIRST: Final = "another was first"
SLOT_LEFT: Final = "slot left"
ENDED_BY_ANOTHER: Final = (ANOTHER_WAS_FIRST, SLOT_LEFT)
"""The reasons of requests that the answer to another one has cancelled."""


def not_open(
    request_id: UUID | None, status: str | None, reason: str | None, first: str | None = None
) -> Rejection:
    """Return why a request cannot be answered any more: it was decided, or is void; `first` says by whose decision."""
    if status in ("approved", "rejected", "returned"):
        why = f": {first}" if first else ""
        return Rejection("APPROVAL_DECIDED", f"request {request_id} is {status}{why}", ("request_id",))
    found = ", ".join(part for part in (first, reason) if part)
    why = f": {found}" if found else ""
    hint = None if first else "look for a new request that asks about what it is now"
    word = "cancelled" if status == "cancelled" else "void"
    return Rejection("APPROVAL_VOID", f"request {request_id} is {word}{why}", ("request_id",), hint=hint)


def separate(message: str) -> Rejection:
    hint = "another member has to decide; the contract can relax this under `separation`"
    return Rejection("SEPARATION_OF_DUTIES", message, ("actor",), hint=hint)


WAYS_MAX: Final = 10_000
"""With more ways to agree than this, the round counts as one that can be filled."""

SeatsNeeded = frozenset[str]
"""The people who could fill one seat."""


def round_of(requests: Iterable[ApprovalRequest], slot: str, generation: int) -> list[ApprovalRequest]:
    """Return the requests of one slot and one generation that are not void."""
    live = [request for request in requests if request.status not in ("void", "cancelled")]
    return [request for request in live if (request.slot, request.generation) == (slot, generation)]


def fillers(requests: Iterable[ApprovalRequest]) -> set[str]:
    """Return the people who have decided, by themselves or through another."""
    decisions = [decision for request in requests for decision in request.decisions]
    return {d.approver_id for d in decisions} | {d.on_behalf_of for d in decisions if d.on_behalf_of}


def sitting_in(requests: Iterable[ApprovalRequest]) -> set[str]:
    """Return the people with a seat that is not closed."""
    return {seat.user_id for request in requests for seat in request.seats if seat.status != "closed"}


def can_be_filled(requests: Sequence[ApprovalRequest]) -> bool:
    """Return whether every open request of a round can still be approved, with each person in one seat."""
    used = fillers(requests)
    ways = [_ways(request, used) for request in requests if request.status == "pending"]
    if prod(map(len, ways)) > WAYS_MAX:
        return True
    return any(_are_distinct([need for way in chosen for need in way]) for chosen in product(*ways))


def _ways(request: ApprovalRequest, used: set[str]) -> list[list[SeatsNeeded]]:
    """Return the ways in which it can still be approved: for each, the seats to be filled."""
    if request.enough is None or is_open(request, ESCALATION):
        return [[]]  # not recorded; or a person of the escalation decides alone
    groups = {group.name: group for group in request.groups}
    found = [[groups[name] for name in names] for names in _alternatives(request.enough)]
    able = [way for way in found if all(may_agree(request, group) for group in way)]
    if request.may_repeat:
        return [[] for _ in able[:1]]
    return [[need for group in way for need in _needs(request, group, used)] for way in able]


def _alternatives(enough: Any) -> list[frozenset[str]]:
    """Return sets of groups, each of which is enough."""
    if isinstance(enough, str):
        return [frozenset({enough})]
    ((how, parts),) = enough.items()
    within = [_alternatives(part) for part in parts]
    if how == "any":
        return [names for found in within for names in found]
    return [frozenset().union(*chosen) for chosen in product(*within)]


def _needs(request: ApprovalRequest, group: Group, used: set[str]) -> list[SeatsNeeded]:
    if has_agreed(request, group):
        return []
    seats = [seat for seat in request.seats_of(group.name) if seat.status in ("open", "later")]
    agreed = sum(d.answer == "approved" for d in request.decisions_of(group.name))
    people = frozenset(seat.user_id for seat in seats) - used
    return [people] * (group.needed - agreed)


def _are_distinct(needs: Sequence[SeatsNeeded]) -> bool:
    """Return whether every seat can have a person of its own."""
    taken: dict[str, int] = {}
    return all(_find_person(needs, number, taken, set()) for number in range(len(needs)))


def _find_person(needs: Sequence[SeatsNeeded], number: int, taken: dict[str, int], asked: set[str]) -> bool:
    """Find a person for this seat; a person in another seat moves if that can be filled otherwise."""
    while people := needs[number] - asked:
        person = min(people)
        asked.add(person)
        if person not in taken or _find_person(needs, taken[person], taken, asked):
            taken[person] = number
            return True
    return False


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
        """Return why this person may not fill this seat now, as its owner or in their place; none if they may."""
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
        """Return the first seat that this person may fill, their own before those of others, or why there is none."""
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
        """Return whether a delegation from the owner to this person is about this matter."""
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
    """Return the seat of a request in which this person may answer, or why there is none."""
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
