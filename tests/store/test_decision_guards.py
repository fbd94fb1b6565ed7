"""A decision is of somebody who is asked, on a request that is open, and not of whoever had a part in it."""

import pytest

from tests.plain_sql import NOT_ASKED, refused
from tests.rows import insert, insert_decision, insert_request

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


async def test_whoever_stands_in_decides_for_the_seat(owner):
    asked = await insert_request(owner)
    seat = await insert(owner, "workflow_seats", request_id=asked["id"], user_id="bea")
    given = {"request_id": asked["id"], "seat_id": seat["id"], "approver_id": "bob"}
    assert await insert_decision(owner, **given, on_behalf_of="bea")
