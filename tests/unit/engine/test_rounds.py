"""A round: nobody fills two of its seats, and nobody is left with a seat that nobody may fill."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from assent.engine.consent import can_be_filled, round_of, tally
from assent.engine.inputs import Reassign
from assent.engine.run import Offered
from assent.model.actor import Actor
from assent.model.approval import ApprovalRequest, Decision, Delegation, Group, Seat
from assent.model.mutation import Rejection
from tests.unit.engine.approving import ENDS, asking, code, decide, end_of, play, request_at
from tests.unit.engine.driving import NOW, EngineCase, flow


def two_branches(one: tuple[str, ...], two: tuple[str, ...], mode: str = "any", **keys: Any) -> EngineCase:
    """Two approvals at the same time, each of a role of its own."""
    fork = [{"id": "fork", "type": "parallel_split"}, {"id": "join", "type": "parallel_join", "mode": "all"}]
    asks = [{"id": name, "type": "approval", "assignee": {"role": name}} for name in ("one", "two")]
    asks[1]["mode"] = mode
    ways = [{"from": "fork", "to": ask["id"]} for ask in asks]
    ways += [
        {"from": a["id"], "event": event, "to": "join"} for a in asks for event in ("approved", "rejected")
    ]
    case = EngineCase(
        flow([fork[0], *asks, fork[1], ENDS[0]], [*ways, {"from": "join", "to": "yes"}], **keys)
    )
    case.people = {"one": one, "two": two}
    return case.start()


@pytest.mark.parametrize(
    ("one", "two", "mode", "asks"),
    [
        (("bea",), ("bea",), "any", False),
        (("bea", "bob"), ("bea",), "any", True),
        (("bea", "bob"), ("bea", "bob"), "all", False),
        (("bea", "bob", "cid"), ("bea", "bob"), "all", True),
    ],
)
def test_people_who_cannot_fill_the_seats_of_two_branches_between_them_are_an_incident(
    one: tuple[str, ...], two: tuple[str, ...], mode: str, asks: bool
) -> None:
    case = two_branches(one, two, mode)
    assert sorted(r.node_id for r in case.requests.values()) == (["one", "two"] if asks else ["one"])
    incident = case.instance.incident
    assert (case.instance.status, incident is None) == ("running" if asks else "paused", asks)
    if incident is not None:
        assert incident["code"] == "NO_APPROVERS"
        assert incident["message"].startswith(
            "`two` finds not enough people to ask who are not needed for `one`"
        )


def test_contracts_that_let_one_person_sit_twice_ask_one_person_on_two_branches() -> None:
    case = two_branches(("bea",), ("bea",), separation={"twice": "allowed"})
    for name in ("one", "two"):
        assert decide(case, "bea", request=request_at(case, name)) == "accepted"
    assert end_of(case) == "yes"


def test_whoever_answers_one_branch_is_not_asked_on_the_other_any_more() -> None:
    case = two_branches(("bea", "bob"), ("bea", "bob"))
    decide(case, "bea", request=request_at(case, "one"))
    seats = {seat.user_id: seat.status for seat in request_at(case, "two").seats}
    assert seats == {"bea": "closed", "bob": "open"}
    assert decide(case, "bob", request=request_at(case, "two")) == "accepted"
    assert end_of(case) == "yes"


@pytest.mark.parametrize("answer", ["approved", "abstained"])
def test_whoever_is_needed_on_one_branch_does_not_answer_the_other(answer: str) -> None:
    case = two_branches(("bea", "bob"), ("bea",))
    refused = decide(case, "bea", answer, request=request_at(case, "one"))
    assert isinstance(refused, Rejection)
    assert (refused.code, "bea is needed for another seat of `two`" in refused.message) == (
        "SEPARATION_OF_DUTIES",
        True,
    )
    assert {seat.status for r in case.requests.values() for seat in r.seats} == {"open"}
    for name, who in (("two", "bea"), ("one", "bob")):
        assert decide(case, who, answer, request=request_at(case, name)) == "accepted"


def test_whoever_is_needed_elsewhere_may_still_say_no() -> None:
    case = two_branches(("bea", "bob"), ("bea",))
    assert decide(case, "bea", "rejected", request=request_at(case, "one")) == "accepted"
    assert request_at(case, "one").status == "rejected"


def test_whoever_is_needed_in_one_group_does_not_fill_a_seat_of_another() -> None:
    groups = {name: {"approvers": {"role": name}} for name in ("a", "b")}
    case = asking(groups=groups, enough="a && b")
    case.people = {"a": ("bea", "bob"), "b": ("bea",)}
    case.start()
    assert code(decide(case, "bea", group="a")) == "SEPARATION_OF_DUTIES"
    assert decide(case, "bea", group="b") == "accepted"
    assert play(case, ("bob", "approved")) == "yes"


def test_nobody_is_put_into_a_seat_that_they_may_not_fill() -> None:
    case = two_branches(("bea", "bob"), ("bob", "cid"))
    decide(case, "bea", request=request_at(case, "one"))
    assert code(hand_over(case, "two", "cid", "bea")) == "SEPARATION_OF_DUTIES"
    assert hand_over(case, "two", "cid", "dan") == "accepted"


def test_nobody_is_taken_from_a_seat_that_nobody_else_could_fill() -> None:
    case = two_branches(("bob",), ("bea",))
    assert code(hand_over(case, "one", "bob", "bea")) == "SEPARATION_OF_DUTIES"
    assert hand_over(case, "one", "bob", "dan") == "accepted"


def hand_over(case: EngineCase, name: str, from_user: str, to_user: str) -> Offered:
    given = Reassign(case.id(), Actor(from_user), request_at(case, name).id, from_user, to_user)
    return case.give(given)


def test_whoever_sat_before_in_the_round_gets_no_seat_and_the_record_says_so() -> None:
    asks = [
        {"id": name, "type": "approval", "assignee": {"role": "boss"}} for name in ("one", "two", "three")
    ]
    ways = [
        {"from": a, "event": "approved", "to": b}
        for a, b in (("one", "two"), ("two", "three"), ("three", "yes"))
    ]
    ways += [{"from": name, "event": "rejected", "to": "no"} for name in ("one", "two", "three")]
    case = EngineCase(flow([*asks, *ENDS], ways))
    case.people = {"boss": ("bea", "bob", "cid")}
    case.start()
    for who in ("bea", "bob"):
        decide(case, who)
    last = request_at(case, "three")
    assert [seat.user_id for seat in last.seats] == ["cid"]
    assert {s["user_id"]: s["why"] for s in last.skipped} == {
        "bea": "fills another seat",
        "bob": "fills another seat",
    }


def test_incident_says_how_one_person_may_fill_two_seats_of_a_round() -> None:
    case = one_after_the_other(("bea",))
    decide(case, "bea")
    assert "`separation: {twice: allowed}` lets" in str(case.step_of("two").error)


def stand_in(case: EngineCase, from_user: str, to_user: str) -> None:
    case.delegations = {to_user: (Delegation(UUID(int=9), from_user, to_user),)}


def one_after_the_other(people: tuple[str, ...]) -> EngineCase:
    """Two approvals of one role, one after the other, in one round."""
    asks = [{"id": name, "type": "approval", "assignee": {"role": "boss"}} for name in ("one", "two")]
    ways = [{"from": a, "event": "approved", "to": b} for a, b in (("one", "two"), ("two", "yes"))]
    ways += [{"from": name, "event": "rejected", "to": "no"} for name in ("one", "two")]
    case = EngineCase(flow([*asks, *ENDS], ways))
    case.people = {"boss": people}
    return case.start()


def test_whoever_answered_through_another_is_not_asked_by_the_next_request_of_the_round() -> None:
    case = one_after_the_other(("bea", "cid"))
    stand_in(case, "bea", "bob")
    assert decide(case, "bob", on_behalf_of="bea", request=request_at(case, "one")) == "accepted"
    second = request_at(case, "two")
    assert [seat.user_id for seat in second.seats] == ["cid"]
    assert {"user_id": "bea", "why": "fills another seat"} in second.skipped
    assert code(decide(case, "bea", request=second)) == "SEPARATION_OF_DUTIES"
    assert decide(case, "cid", request=second) == "accepted"


def test_whoever_answered_through_another_fills_no_seat_on_another_branch() -> None:
    case = two_branches(("bea", "cid"), ("bea", "cid"))
    stand_in(case, "bea", "bob")
    assert decide(case, "bob", on_behalf_of="bea", request=request_at(case, "one")) == "accepted"
    second = request_at(case, "two")
    assert {seat.user_id: seat.status for seat in second.seats} == {"bea": "closed", "cid": "open"}
    assert code(decide(case, "bea", request=second)) == "SEPARATION_OF_DUTIES"


def test_one_person_fills_one_seat_of_a_later_round_too() -> None:
    asks = [{"id": name, "type": "approval", "assignee": {"role": name}} for name in ("one", "two")]
    fork = [{"id": "fork", "type": "parallel_split"}, {"id": "join", "type": "parallel_join", "mode": "all"}]
    ways = [
        {"from": "draft", "event": "submitted", "to": "fork"},
        *({"from": "fork", "to": ask["id"]} for ask in asks),
        *(
            {"from": ask["id"], "event": event, "to": "join"}
            for ask in asks
            for event in ("approved", "rejected")
        ),
        {"from": "join", "to": "check"},
        {"from": "check", "event": "again", "to": "draft"},
        {"from": "check", "event": "submitted", "to": "yes"},
    ]
    forms = [{"id": name, "type": "action"} for name in ("draft", "check")]
    case = EngineCase(flow([forms[0], fork[0], *asks, fork[1], forms[1], ENDS[0]], ways))
    case.people = {"one": ("bea", "bob"), "two": ("bea", "bob")}
    case.start()
    for answers in ((("bea", "one"), ("bob", "two")), (("bob", "one"), ("bea", "two"))):
        assert case.advance("submitted") == "accepted"
        (first, at_first), (second, at_second) = answers
        asked = {r.node_id: r for r in case.requests.values() if r.generation == case.instance.generation}
        assert decide(case, first, request=asked[at_first]) == "accepted"
        assert code(decide(case, first, request=asked[at_second])) == "SEPARATION_OF_DUTIES"
        assert decide(case, second, request=asked[at_second]) == "accepted"
        if case.instance.generation == 0:
            assert case.advance("again") == "accepted"
    assert case.resting == ["check"]


def test_refusal_names_the_one_who_is_needed_elsewhere() -> None:
    """A stand-in is needed themselves, and not the person in whose place they would answer."""
    case = two_branches(("lena", "bob"), ("fin",))
    stand_in(case, "lena", "fin")
    refused = decide(case, "fin", on_behalf_of="lena", request=request_at(case, "one"))
    assert isinstance(refused, Rejection)
    assert "fin is needed for another seat of `two`" in refused.message


def _some_round(chance: Random) -> list[ApprovalRequest]:
    """One or two requests with some seats filled, some open and some given up."""
    return [_some_request(chance, number) for number in range(chance.randint(1, 2))]


def _some_request(chance: Random, number: int) -> ApprovalRequest:
    groups, seats, decisions = [], [], []
    for name in ("a", "b")[: chance.randint(1, 2)]:
        people = chance.sample(("ann", "bob", "cid", "dan"), chance.randint(1, 3))
        mode = chance.choice(("any", "all", "quorum"))
        groups.append(Group(name, mode, {"any": 1, "all": len(people), "quorum": min(2, len(people))}[mode]))
        for position, person in enumerate(people):
            status = chance.choice(("open", "open", "later", "decided", "closed"))
            seat = Seat(uuid4(), person, name, position, "user", status)
            seats.append(seat)
            if status == "decided":
                answer = chance.choice(("approved", "approved", "rejected", "abstained"))
                decisions.append(Decision(uuid4(), seat.id, person, answer, NOW))
    enough = {chance.choice(("all", "any")): [group.name for group in groups]}
    ids = ("acme", UUID(int=number), UUID(int=1), UUID(int=number), f"n{number}", "zoe", NOW)
    return ApprovalRequest(
        *ids,
        token_id="0",
        groups=tuple(groups),
        enough=enough,
        seats=tuple(seats),
        decisions=tuple(decisions),
    )


def _verdict(request: ApprovalRequest) -> str | None:
    ((how, _),) = request.enough.items()
    return tally(request, lambda agreed: (all if how == "all" else any)(agreed.values()))


def _fillings(requests: list[ApprovalRequest]) -> Iterator[list[ApprovalRequest]]:
    """Every way in which free people could fill seats that wait, each of them one, all with a yes."""
    used = {decision.approver_id for request in requests for decision in request.decisions}
    waiting = [
        (number, seat)
        for number, request in enumerate(requests)
        for seat in request.seats
        if seat.status in ("open", "later") and seat.user_id not in used
    ]
    for chosen in chain.from_iterable(combinations(waiting, size) for size in range(len(waiting) + 1)):
        if len({seat.user_id for _, seat in chosen}) < len(chosen):
            continue
        after = list(requests)
        for number, seat in chosen:
            decision = Decision(uuid4(), seat.id, seat.user_id, "approved", NOW)
            after[number] = after[number].decide(decision)
        yield after


@pytest.mark.parametrize("seed", range(300))
def test_round_can_be_filled_exactly_where_some_way_to_fill_it_approves_it(seed: int) -> None:
    requests = _some_round(Random(seed))  # noqa: S311
    if any(_verdict(request) is not None for request in requests):
        return  # it would not wait any more
    could = any(all(_verdict(r) == "approved" for r in after) for after in _fillings(requests))
    assert can_be_filled(requests) == could


def test_a_seat_of_somebody_who_fills_another_cannot_be_filled() -> None:
    case = two_branches(("bea", "bob"), ("bea", "bob"))
    decide(case, "bea", request=request_at(case, "one"))
    two = request_at(case, "two")
    seats = tuple(replace(seat, status="open" if seat.user_id == "bea" else "closed") for seat in two.seats)
    case.requests[two.id] = two.evolve(seats=seats)
    assert not can_be_filled(list(case.requests.values()))


def test_seats_that_are_filled_need_nobody_any_more() -> None:
    case = two_branches(("cid",), ("bea", "bob"), "all")
    decide(case, "bea", request=request_at(case, "two"))
    assert can_be_filled(list(case.requests.values()))


def test_a_round_is_what_one_slot_asks_in_one_generation_and_what_still_counts() -> None:
    case = two_branches(("bea", "bob"), ("bea", "bob"))
    live, other = case.requests.values()
    void = other.evolve(status="void")
    others = [replace(live, slot="slot:other"), replace(live, generation=live.generation + 1)]
    assert round_of([live, void, *others], live.slot, live.generation) == [live]
