"""Rounds: a person fills one seat of a round. Who has filled one, and whether all seats can be filled. Pure.

A seat that no person may fill would wait for ever, unnoticed. So the whole round is checked before people are asked,
and a person who is needed for one seat does not fill another.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from assent.engine.consent import has_agreed, is_open, may_agree
from assent.model.approval import ESCALATION, ApprovalRequest, Group

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
