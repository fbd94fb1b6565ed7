"""The requests of one round, where nobody fills two seats: who has filled one, and whether all can be filled. Pure.

A seat that nobody may fill would wait for ever and tell nobody. So whoever asks looks at the whole round first, and
whoever answers does not take the place of somebody who is needed elsewhere.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from assent.engine.consent import has_agreed, is_open, may_agree
from assent.model.approval import ESCALATION, ApprovalRequest, Group

WAYS_MAX: Final = 10_000
"""Beyond this many ways to agree, nobody could tell by hand either: it is taken that there is one."""

SeatsNeeded = frozenset[str]
"""One seat that somebody has to fill, and who could."""


def round_of(requests: Iterable[ApprovalRequest], slot: str, generation: int) -> list[ApprovalRequest]:
    """What is asked in one slot and one generation, and counts: not what has become void."""
    live = [request for request in requests if request.status not in ("void", "cancelled")]
    return [request for request in live if (request.slot, request.generation) == (slot, generation)]


def fillers(requests: Iterable[ApprovalRequest]) -> set[str]:
    """Whoever has answered, for themselves or through another."""
    decisions = [decision for request in requests for decision in request.decisions]
    return {d.approver_id for d in decisions} | {d.on_behalf_of for d in decisions if d.on_behalf_of}


def sitting_in(requests: Iterable[ApprovalRequest]) -> set[str]:
    """Whoever has a seat that is filled or waits for them."""
    return {seat.user_id for request in requests for seat in request.seats if seat.status != "closed"}


def can_be_filled(requests: Sequence[ApprovalRequest]) -> bool:
    """Whether people are left by whom every open request of a round can be approved, each in one seat."""
    used = fillers(requests)
    ways = [_ways(request, used) for request in requests if request.status == "pending"]
    if prod(map(len, ways)) > WAYS_MAX:
        return True
    return any(_are_distinct([need for way in chosen for need in way]) for chosen in product(*ways))


def _ways(request: ApprovalRequest, used: set[str]) -> list[list[SeatsNeeded]]:
    """The ways in which it can still be approved: for each, the seats that have to be filled."""
    if request.enough is None or is_open(request, ESCALATION):
        return [[]]  # asked before that was recorded; or somebody is asked who decides alone
    groups = {group.name: group for group in request.groups}
    found = [[groups[name] for name in names] for names in _alternatives(request.enough)]
    able = [way for way in found if all(may_agree(request, group) for group in way)]
    if request.may_repeat:
        return [[] for _ in able[:1]]
    return [[need for group in way for need in _needs(request, group, used)] for way in able]


def _alternatives(enough: Any) -> list[frozenset[str]]:
    """Sets of groups, each of which is enough."""
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
    """Whether every seat can have somebody of its own."""
    taken: dict[str, int] = {}
    return all(_find_somebody(needs, number, taken, set()) for number in range(len(needs)))


def _find_somebody(needs: Sequence[SeatsNeeded], number: int, taken: dict[str, int], asked: set[str]) -> bool:
    """Somebody for this seat; whoever holds another moves where that can be filled otherwise."""
    while somebody := needs[number] - asked:
        person = min(somebody)
        asked.add(person)
        if person not in taken or _find_somebody(needs, taken[person], taken, asked):
            taken[person] = number
            return True
    return False
