"""A decision is by an approver who is asked, on a request that is open, and never by an originator."""

from datetime import timedelta

import pytest

from tests.plain_sql import NOT_ASKED, refused
from tests.postgres import START
from tests.rows import (
    insert,
    insert_decision,
    insert_instance,
    insert_member,
    insert_request,
    insert_seat,
    update,
)

HOUR = timedelta(hours=1)

MISTAKES = {
    "void": ({"status": "void"}, {}, "is void"),
    "approved": ({"status": "approved"}, {}, "is approved"),
    "an originator": ({"originators": ["bea"]}, {}, "bea had a part"),
    "for an originator": (
        {"originators": ["ann"]},
        {"approver_id": "bob", "on_behalf_of": "ann"},
        "bob had a part",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_decision_by_hand_is_refused(owner, mistake):
    request, decision, saying = MISTAKES[mistake]
    asked = await insert_request(owner, **request)
    async with refused(owner, NOT_ASKED, saying=saying):
        await insert_decision(owner, request_id=asked["id"], **decision)


async def test_whoever_has_no_seat_does_not_decide(owner):
    asked = await insert_request(owner)
    seat = await insert(owner, "workflow_seats", request_id=asked["id"], user_id="bea")
    other = await insert(owner, "workflow_seats", user_id="bob")
    for wrong in ({"seat_id": seat["id"]}, {"seat_id": other["id"]}, {"seat_id": None}):
        async with refused(owner, NOT_ASKED, saying="bob has no seat"):
            await insert_decision(owner, request_id=asked["id"], approver_id="bob", **wrong)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"approver_id": "bea"}, {"approver_id": "bea"}),
        ({"approver_id": "bea"}, {"approver_id": "bea", "on_behalf_of": "bob"}),
        ({"approver_id": "bob", "on_behalf_of": "bea"}, {"approver_id": "bea"}),
    ],
)
async def test_nobody_fills_two_seats_of_a_request_unless_it_says_so(owner, first, second):
    asked = await insert_request(owner)
    await insert_decision(owner, request_id=asked["id"], **first)
    async with refused(owner, NOT_ASKED, saying="fills another seat"):
        await insert_decision(owner, request_id=asked["id"], **second)
    relaxed = await insert_request(owner, may_repeat=True)
    await insert_decision(owner, request_id=relaxed["id"], **first)
    assert await insert_decision(owner, request_id=relaxed["id"], **second)


async def test_nobody_fills_seats_of_two_requests_of_a_round(owner):
    """Also where another answered in their place."""
    instance = await insert_instance(owner)
    about = {"instance_id": instance["id"], "generation": 1, "slot": "x"}
    first = await insert_request(owner, **about)
    await insert_decision(owner, request_id=first["id"], approver_id="bob", on_behalf_of="bea")
    second = await insert_request(owner, **about)
    for who in ("bea", "bob"):
        async with refused(owner, NOT_ASKED, saying="fills another seat of the round"):
            await insert_decision(owner, request_id=second["id"], approver_id=who)
    for other in ({"generation": 2}, {"slot": "y"}, {"may_repeat": True}):
        asked = await insert_request(owner, **about | other)
        assert await insert_decision(owner, request_id=asked["id"], approver_id="bea")


async def test_what_was_decided_in_a_void_request_fills_no_seat_of_its_round(owner):
    instance = await insert_instance(owner)
    before, now = [await insert_request(owner, instance_id=instance["id"]) for _ in range(2)]
    await insert_decision(owner, request_id=before["id"], approver_id="bea")
    await update(owner, "approval_requests", before, status="void")
    assert await insert_decision(owner, request_id=now["id"], approver_id="bea")


@pytest.mark.parametrize("status", ["later", "closed"])
async def test_seat_that_is_not_asked_is_not_decided(owner, status):
    asked = await insert_request(owner)
    seat = await insert_seat(owner, asked, user_id="bea", status=status)
    async with refused(owner, NOT_ASKED, saying="bea has no seat"):
        await insert_decision(owner, request_id=asked["id"], seat_id=seat["id"], approver_id="bea")


async def test_whoever_stands_in_decides_for_the_seat(owner):
    asked = await insert_request(owner)
    seat = await insert(owner, "workflow_seats", request_id=asked["id"], user_id="bea")
    given = {"request_id": asked["id"], "seat_id": seat["id"], "approver_id": "bob"}
    assert await insert_decision(owner, **given, on_behalf_of="bea")


LENT = {
    "nothing": None,
    "to another": {"to_user": "cid"},
    "of another": {"from_user": "ann"},
    "revoked": {"revoked_at": START},
    "later": {"starts_at": START + HOUR},
    "before": {"starts_at": START - 2 * HOUR, "ends_at": START - HOUR},
    "another type": {"entity_types": ["contract"]},
    "another workflow": {"workflows": ["orders"]},
}


@pytest.mark.parametrize("case", LENT)
async def test_nobody_decides_for_one_who_has_not_lent_it_to_them(owner, case):
    asked = await insert_request(owner)
    if (scope := LENT[case]) is not None:
        await insert(owner, "approval_delegations", **{"from_user": "bea", "to_user": "bob"} | scope)
    given = {"request_id": asked["id"], "approver_id": "bob", "on_behalf_of": "bea", "lends": False}
    async with refused(owner, NOT_ASKED, saying="bob does not stand in for bea"):
        await insert_decision(owner, **given)


async def test_clock_that_is_a_little_off_takes_nothing_from_a_stand_in(owner):
    """The application's clock says when a delegation begins, and need not be the server's."""
    asked = await insert_request(owner)
    names = {"from_user": "bea", "to_user": "bob", "created_by": "bea"}
    await insert(owner, "approval_delegations", **names, starts_at=START + timedelta(seconds=30))
    given = {"request_id": asked["id"], "approver_id": "bob", "on_behalf_of": "bea", "lends": False}
    assert await insert_decision(owner, **given)


GONE = {
    "left": ({"active": False}, {}, "user"),
    "stand-in left": ({}, {"active": False}, "user"),
    "role": ({"roles": ["legal"]}, {}, "role:finance"),
}


@pytest.mark.parametrize("case", GONE)
async def test_one_of_the_members_decides_while_they_are_what_they_were_asked_as(owner, case):
    bea, bob, via = GONE[case]
    for name, given in (("bea", bea), ("bob", bob)):
        await insert_member(owner, user_id=name, **{"roles": ["finance"]} | given)
    for directory, is_taken in (("members", False), (None, True)):
        asked = await insert_request(owner, approvers={"directory": directory})
        seat = await insert_seat(owner, asked, user_id="bea", via=via)
        given = {
            "request_id": asked["id"],
            "seat_id": seat["id"],
            "approver_id": "bob",
            "on_behalf_of": "bea",
        }
        if is_taken:  # an application keeps its people elsewhere, and the engine asks it
            assert await insert_decision(owner, **given)
            continue
        async with refused(owner, NOT_ASKED, saying="is not what they were asked as"):
            await insert_decision(owner, **given)
