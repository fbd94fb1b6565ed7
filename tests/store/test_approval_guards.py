"""A request is approved only by the decisions of those who were asked, or by its default, also by plain SQL (WF-03)."""

from datetime import timedelta

import pytest

from assent.model.ids import new_id
from tests.plain_sql import NOT_APPROVED, acting_for, refused
from tests.postgres import START
from tests.rows import insert_decision, insert_request, insert_seat, update

TABLE = "approval_requests"
BOTH = {"all": ["finance", "legal"]}
EITHER = {"any": [BOTH, "cfo"]}
PEOPLE = {"finance": ("fay", "fin", "flo"), "legal": ("lea",), "cfo": ("cal",), "escalation": ("max",)}


def _asked(enough, mode="quorum", needed=2, default=None):
    groups = [{"name": "finance", "mode": mode, "needed": needed, "stage": 0}]
    groups += [{"name": name, "mode": "any", "needed": 1, "stage": 0} for name in PEOPLE if name != "finance"]
    people = [{"user": user, "group": name, "via": "user"} for name in PEOPLE for user in PEOPLE[name]]
    return {"groups": groups, "people": people, "enough": enough, "default": default}


async def _request(connection, enough=EITHER, **given):
    return await insert_request(connection, approvers=_asked(enough, **given))


async def _answer(connection, request, user, decision="approved", **given):
    group = next((name for name in PEOPLE if user in PEOPLE[name]), "finance")
    seat = await insert_seat(connection, request, user_id=user, **{"group_name": group} | given)
    told = {"request_id": request["id"], "seat_id": seat["id"], "approver_id": user, "decision": decision}
    await insert_decision(connection, id=new_id(START), **told)


async def _approve(connection, request, **given):
    return await update(connection, TABLE, request, status="approved", decided_at=START, **given)


ENOUGH = {
    "two of finance, and legal": ("fay", "fin", "lea"),
    "the cfo alone": ("cal",),
    "whoever it was escalated to": ("max",),
}
TOO_FEW = {"nobody": (), "one of finance": ("fay", "lea"), "no legal": ("fay", "fin", "flo")}


@pytest.mark.parametrize("names", ENOUGH.values(), ids=ENOUGH)
async def test_enough_yeses_let_the_application_approve(owner, names):
    request = await _request(owner)
    for name in names:
        await _answer(owner, request, name)
    async with acting_for(owner, "acme"):
        assert await _approve(owner, request) == 1


@pytest.mark.parametrize("names", TOO_FEW.values(), ids=TOO_FEW)
async def test_application_cannot_approve_what_too_few_have(owner, names):
    request = await _request(owner)
    for name in names:
        await _answer(owner, request, name)
    saying = f"approval request {request['id']} is not approved"
    async with refused(owner, NOT_APPROVED, saying=saying), acting_for(owner, "acme"):
        await _approve(owner, request)


async def test_owner_cannot_either_and_a_consumed_one_is_no_way_round(owner):
    request = await _request(owner)
    async with refused(owner, NOT_APPROVED):
        await _approve(owner, request, applied_at=START)


async def test_request_does_not_begin_approved(owner):
    async with refused(owner, NOT_APPROVED):
        await insert_request(owner, approvers=_asked(EITHER), status="approved")


@pytest.mark.parametrize("answer", ["rejected", "abstained"])
async def test_other_answers_do_not_count(owner, answer):
    request = await _request(owner)
    await _answer(owner, request, "cal", answer)
    async with refused(owner, NOT_APPROVED):
        await _approve(owner, request)


async def test_where_one_is_enough_the_first_who_says_yes_or_no_has_decided(owner):
    request = await _request(owner, "finance", mode="any", needed=1)
    await _answer(owner, request, "fay", "abstained")
    await _answer(owner, request, "fin", "rejected")
    await _answer(owner, request, "flo", "approved")
    async with refused(owner, NOT_APPROVED):
        await _approve(owner, request)


async def test_seat_that_somebody_adds_for_themselves_does_not_count(owner):
    request = await _request(owner)
    await _answer(owner, request, "mallory", group_name="cfo")
    async with refused(owner, NOT_APPROVED):
        await _approve(owner, request)


async def test_found_person_counts_in_the_group_that_they_were_found_for(owner):
    request = await _request(owner)
    await _answer(owner, request, "fay", group_name="cfo")
    async with refused(owner, NOT_APPROVED):
        await _approve(owner, request)


async def test_whoever_took_the_place_of_one_who_was_found_counts(owner):
    request = await _request(owner)
    given_up = await insert_seat(owner, request, user_id="cal", group_name="cfo", status="closed")
    await _answer(owner, request, "bob", group_name="cfo", replaces_id=given_up["id"])
    assert await _approve(owner, request) == 1


async def test_place_at_another_request_is_no_place_here(owner):
    request, other = await _request(owner), await _request(owner)
    elsewhere = await insert_seat(owner, other, user_id="cal", group_name="cfo")
    await _answer(owner, request, "bob", group_name="cfo", replaces_id=elsewhere["id"])
    async with refused(owner, NOT_APPROVED):
        await _approve(owner, request)


@pytest.mark.parametrize(
    ("default", "passes"),
    [
        ({"status": "approved", "at": START.isoformat()}, True),
        ({"status": "approved", "at": (START + timedelta(hours=1)).isoformat()}, False),
        ({"status": "rejected", "at": START.isoformat()}, False),
    ],
)
async def test_default_approves_when_it_says_so_and_its_time_is_over(owner, default, passes):
    request = await _request(owner, default=default)
    if passes:
        assert await _approve(owner, request) == 1
        return
    async with refused(owner, NOT_APPROVED):
        await _approve(owner, request)


async def test_default_is_not_brought_forward_by_a_later_date_of_the_decision(owner):
    later = START + timedelta(days=1)
    request = await _request(owner, default={"status": "approved", "at": later.isoformat()})
    async with refused(owner, NOT_APPROVED):
        await update(owner, TABLE, request, status="approved", decided_at=later)
