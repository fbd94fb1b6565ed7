"""A round: nobody fills two of its seats, and nobody is left with a seat that nobody may fill."""

from typing import Any

import pytest

from assent.engine.inputs import Reassign
from assent.engine.run import Offered
from assent.model.actor import Actor
from assent.model.mutation import Rejection
from tests.unit.engine.approving import ENDS, asking, code, decide, end_of, play, request_at
from tests.unit.engine.driving import Case, flow


def two_branches(one: tuple[str, ...], two: tuple[str, ...], mode: str = "any", **keys: Any) -> Case:
    """Two approvals at the same time, each of a role of its own."""
    fork = [{"id": "fork", "type": "parallel_split"}, {"id": "join", "type": "parallel_join", "mode": "all"}]
    asks = [{"id": name, "type": "approval", "assignee": {"role": name}} for name in ("one", "two")]
    asks[1]["mode"] = mode
    ways = [{"from": "fork", "to": ask["id"]} for ask in asks]
    ways += [
        {"from": a["id"], "event": event, "to": "join"} for a in asks for event in ("approved", "rejected")
    ]
    case = Case(flow([fork[0], *asks, fork[1], ENDS[0]], [*ways, {"from": "join", "to": "yes"}], **keys))
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


def hand_over(case: Case, name: str, from_user: str, to_user: str) -> Offered:
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
    case = Case(flow([*asks, *ENDS], ways))
    case.people = {"boss": ("bea", "bob", "cid")}
    case.start()
    for who in ("bea", "bob"):
        decide(case, who)
    last = request_at(case, "three")
    assert [seat.user_id for seat in last.seats] == ["cid"]
    assert {s["user_id"]: s["why"] for s in last.skipped} == {
        "bea": "fills another seat",
        "bob": "originator",
    }
