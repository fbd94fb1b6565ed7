"""One of a role: in turn, whoever hands turns out at the same time, or the first who is there."""

import asyncio
from datetime import timedelta

from assent.approvals import find_people
from tests.approvals.staff import DIRECTORY, asked, find, names, skipped, wanted
from tests.plain_sql import wait_until_blocked
from tests.postgres import START
from tests.rows import insert, insert_entity

IN_TURN = wanted("roles", "finance", pick="round_robin")
FIRST = wanted("roles", "finance", pick="first_available")


async def _turns(connection, *groups, now=START):
    found = await find_people(connection, DIRECTORY, [asked(group) for group in groups], now)
    return [name for one in found for name in names(one)]


async def test_requests_of_one_wave_get_successive_people(acme):
    assert await _turns(acme, *[IN_TURN] * 4) == ["fay", "fin", "flo", "fay"]


async def test_turn_goes_on_where_it_was_also_at_the_same_moment(acme):
    assert await _turns(acme, *[IN_TURN] * 2) == ["fay", "fin"]
    assert await _turns(acme, *[IN_TURN] * 2) == ["flo", "fay"]
    assert await _turns(acme, IN_TURN, now=START - timedelta(hours=1)) == ["fin"]


async def test_turn_is_of_whoever_had_none_for_the_longest_time(acme):
    await insert(acme, "approval_turns", role="finance", user_id="fay", last_at=START - timedelta(days=1))
    await insert(acme, "approval_turns", role="finance", user_id="flo", last_at=START - timedelta(days=9))
    await insert(acme, "approval_turns", role="legal", user_id="fin", last_at=START)
    assert await _turns(acme, *[IN_TURN] * 3) == ["fin", "flo", "fay"]


async def test_somebody_who_has_left_has_no_turn(acme):
    await acme.execute("UPDATE assent.members SET active = false WHERE user_id = 'fay'")
    assert await _turns(acme, *[IN_TURN] * 3) == ["fin", "flo", "fin"]


async def test_originator_has_no_turn_as_long_as_there_is_another(acme):
    assert names(await find(acme, IN_TURN, subject_id="fay")) == ["fin"]
    assert names(await find(acme, IN_TURN, originators=frozenset({"flo"}))) == ["fay"]
    entity = await insert_entity(acme, actor_id="flo")
    assert names(await find(acme, IN_TURN, entity_id=entity["id"])) == ["fin"]
    alone = wanted("roles", "legal", pick="round_robin")
    assert names(await find(acme, alone, subject_id="fin")) == ["fin"]


async def test_each_of_several_roles_has_a_turn_of_its_own(acme):
    both = wanted("roles", "legal", "finance", pick="round_robin")
    assert await _turns(acme, both, both) == ["fin", "fay", "fin"]


async def test_role_without_anybody_uses_up_nobodys_turn(acme):
    assert await _turns(acme, wanted("roles", "astronaut", pick="round_robin")) == []
    assert await acme.fetchval("SELECT count(*) FROM assent.approval_turns") == 0


async def test_two_transactions_that_ask_at_the_same_time_get_different_people(staffed):
    async with staffed.transaction(None) as observer, staffed.transaction("acme") as second:
        async with staffed.transaction("acme") as first:
            assert await _turns(first, IN_TURN) == ["fay"]
            waiting = asyncio.create_task(_turns(second, IN_TURN))
            await wait_until_blocked(observer, second)
        assert await waiting == ["fin"]


async def test_turn_of_a_transaction_that_is_rolled_back_is_nobodys(staffed):
    async with staffed.transaction("acme") as connection:
        savepoint = connection.transaction()
        await savepoint.start()
        assert await _turns(connection, IN_TURN) == ["fay"]
        await savepoint.rollback()
        assert await _turns(connection, IN_TURN) == ["fay"]


async def test_other_roles_and_other_orgs_do_not_wait(staffed):
    async with staffed.transaction("acme") as first, staffed.transaction(None) as second:
        assert await _turns(first, IN_TURN) == ["fay"]
        legal = asked(wanted("roles", "legal", pick="round_robin"))
        foreign = asked(IN_TURN, org_id="globex")
        found = await find_people(second, DIRECTORY, [legal, foreign], START)
        assert [names(one) for one in found] == [["fin"], ["fay"]]


async def test_roles_are_locked_in_one_order_whoever_asks_for_them_first(staffed):
    legal = wanted("roles", "legal", pick="round_robin")
    async with staffed.transaction(None) as observer, staffed.transaction("acme") as second:
        async with staffed.transaction("acme") as first:
            assert await _turns(first, IN_TURN) == ["fay"]
            waiting = asyncio.create_task(_turns(second, legal, IN_TURN))
            await wait_until_blocked(observer, second)
            # Were `legal` locked before `finance`, this would wait for `second`, and `second` for us.
            assert await _turns(first, legal) == ["fin"]
        assert await waiting == ["fin", "fin"]


async def _delegates(connection, from_user, **given):
    columns = {"from_user": from_user, "to_user": "cal", "created_by": from_user}
    await insert(connection, "approval_delegations", **columns | given)


async def test_first_available_is_the_first_who_has_not_left(acme):
    assert names(await find(acme, FIRST)) == ["fay"]
    await acme.execute("UPDATE assent.members SET active = false WHERE user_id = 'fay'")
    assert names(await find(acme, FIRST)) == ["fin"]


async def test_first_available_passes_over_who_has_handed_everything_to_another(acme):
    await _delegates(acme, "fay")
    found = await find(acme, FIRST)
    assert names(found) == ["fin"]
    assert skipped(found) == {"gus": "inactive", "fay": "away"}


async def test_who_has_handed_over_a_part_or_for_another_time_is_available(acme):
    for given in (
        {"entity_types": ["order"]},
        {"workflows": ["orders"]},
        {"starts_at": START + timedelta(days=1)},
        {"starts_at": START - timedelta(days=2), "ends_at": START},
        {"revoked_at": START},
    ):
        await _delegates(acme, "fay", **given)
    assert names(await find(acme, FIRST)) == ["fay"]


async def test_with_everybody_away_the_first_is_asked_and_whoever_stands_in_answers(acme):
    for name in ("fay", "fin", "flo"):
        await _delegates(acme, name)
    found = await find(acme, FIRST)
    assert names(found) == ["fay"]
    assert skipped(found) == {"gus": "inactive"}


async def test_first_available_is_no_originator_as_long_as_there_is_another(acme):
    assert names(await find(acme, FIRST, subject_id="fay")) == ["fin"]
