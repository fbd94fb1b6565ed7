"""Who may sit: every route to a seat, tried by each who may not and by those who may, on real rows."""

from typing import Any

import asyncpg
import pytest

from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from tests.authority.sitting import (
    ADMIN,
    DENIED,
    GONE,
    OLLIE,
    SEPARATION,
    SHAPES,
    SITUATIONS,
    Asked,
    Situation,
    ask,
    lent,
    statuses,
)
from tests.plain_sql import NOT_ASKED
from tests.world import ORG, rows

BARRED = {name: situation for name, situation in SITUATIONS.items() if situation.code}
ABLE = [name for name, situation in SITUATIONS.items() if not situation.code]

ROUTES = ("decide", "decide_in_a_group", "decide_by_name", "advance", "claim", "give_away")


async def _code(asked: Asked, route: str) -> str | None:
    """The code with which a route is refused; none where it is taken."""
    try:
        await getattr(asked, route)()
    except Refused as refused:
        return refused.code
    return None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", BARRED)
async def test_nobody_gets_a_seat_by_any_route_who_may_not_fill_it(
    runtime: Runtime, clock: MovedClock, name: str, shape: str
) -> None:
    situation = BARRED[name]
    asked = await ask(runtime, clock, situation, shape)
    before = await statuses(asked)
    found = {route: await _code(asked, route) for route in ROUTES}
    assert None not in found.values(), found
    assert found["decide_by_name"] == situation.code
    assert found["decide"] in (situation.code, DENIED)
    assert await asked.inbox() == []
    with pytest.raises(asyncpg.PostgresError) as caught:
        await asked.insert_decision()
    assert caught.value.sqlstate == NOT_ASKED
    assert (await statuses(asked), await _claimed(asked)) == (before, None)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ABLE)
async def test_whoever_may_fill_a_seat_finds_it_and_fills_it(
    runtime: Runtime, clock: MovedClock, name: str, shape: str
) -> None:
    asked = await ask(runtime, clock, SITUATIONS[name], shape)
    assert await asked.inbox() == [asked.request_id]
    await asked.decide_in_a_group()
    (decision,) = await rows(runtime.database, "approval_decisions")
    assert (decision["approver_id"], decision["on_behalf_of"]) == ("pat", asked.situation.for_user)


@pytest.mark.parametrize("name", ABLE)
async def test_whoever_may_fill_a_seat_may_claim_it(runtime: Runtime, clock: MovedClock, name: str) -> None:
    asked = await ask(runtime, clock, SITUATIONS[name])
    await asked.claim()
    assert await _claimed(asked) == "pat"


@pytest.mark.parametrize("name", ABLE)
async def test_decision_by_hand_of_one_who_may_is_taken(
    runtime: Runtime, clock: MovedClock, name: str
) -> None:
    asked = await ask(runtime, clock, SITUATIONS[name])
    await asked.insert_decision()
    assert len(await rows(runtime.database, "approval_decisions")) == 1


async def _claimed(asked: Asked) -> str | None:
    (found,) = [
        r for r in await rows(asked.runtime.database, "approval_requests") if r["id"] == asked.request_id
    ]
    claimed: str | None = found["claimed_by"]
    return claimed


HEIRS = {
    "originator": (SITUATIONS["originator stands in"], "pat", SEPARATION),
    "filler": (SITUATIONS["filler stands in"], "pat", SEPARATION),
    "filler through another": (SITUATIONS["for a filler through another"], "quinn", SEPARATION),
    "stand-in of a filler": (SITUATIONS["for a filler through another"], "pat", SEPARATION),
    "deactivated": (SITUATIONS["stand-in was deactivated"], "pat", "UNKNOWN_USER"),
    "stranger": (SITUATIONS["asked"], "zoe", "UNKNOWN_USER"),
    "service account": (SITUATIONS["asked"], "bot", "UNKNOWN_USER"),
    "asked already": (SITUATIONS["asked"], "pat", "ALREADY_ASKED"),
}


@pytest.mark.parametrize("by", [OLLIE, ADMIN], ids=["approver", "administrator"])
@pytest.mark.parametrize("heir", HEIRS)
async def test_no_seat_is_moved_to_one_who_could_not_fill_it(
    runtime: Runtime, clock: MovedClock, heir: str, by: Actor
) -> None:
    situation, to_user, code = HEIRS[heir]
    asked = await ask(runtime, clock, situation)
    await _add_member(runtime, "bot", kind="service_account")
    before = await statuses(asked)
    with pytest.raises(Refused, match=code):
        await runtime.org(ORG, by).approvals.reassign(asked.request_id, from_user="ollie", to_user=to_user)
    assert await statuses(asked) == before


async def _add_member(runtime: Runtime, user_id: str, **given: Any) -> None:
    async with runtime.database.transaction(None) as connection:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name, kind) VALUES ($1, $2, $2, $3)",
            ORG,
            user_id,
            given.get("kind", "user"),
        )


async def test_nobody_moves_a_seat_to_themselves(runtime: Runtime, clock: MovedClock) -> None:
    asked = await ask(runtime, clock, SITUATIONS["asked"])
    with pytest.raises(Refused, match=SEPARATION):
        await runtime.org(ORG, ADMIN).approvals.reassign(asked.request_id, from_user="ollie", to_user="ada")
    await runtime.org(ORG, OLLIE).approvals.reassign(asked.request_id, from_user="ollie", to_user="ada")
    assert (await statuses(asked))["ada"] == ["open"]


async def test_nobody_moves_a_seat_to_one_for_whom_they_stand_in(runtime: Runtime, clock: MovedClock) -> None:
    asked = await ask(runtime, clock, lent(None, quinn=()))
    mover = Actor("pat", capabilities=frozenset({"approvals:reassign"}))
    with pytest.raises(Refused, match=SEPARATION):
        await runtime.org(ORG, mover).approvals.reassign(asked.request_id, from_user="ollie", to_user="quinn")
    assert "quinn" not in await statuses(asked)


async def test_reassignment_helps_where_nobody_qualified_is_left(runtime: Runtime, clock: MovedClock) -> None:
    asked = await ask(runtime, clock, SITUATIONS["role lost"])
    with pytest.raises(Refused) as caught:
        await asked.decide()
    assert "approvals:reassign" in (caught.value.rejection.hint or "")
    await runtime.org(ORG, ADMIN).approvals.reassign(asked.request_id, from_user="pat", to_user="quinn")
    await runtime.org(ORG, Actor("quinn")).approvals.decide(asked.request_id, "approved")
    (decision,) = await rows(runtime.database, "approval_decisions")
    assert decision["approver_id"] == "quinn"


async def test_role_that_is_given_back_lets_its_holder_decide_again(
    runtime: Runtime, clock: MovedClock
) -> None:
    asked = await ask(runtime, clock, SITUATIONS["role lost"])
    assert await _code(asked, "decide") == GONE
    await _change_members(runtime, "SET roles = '{two}' WHERE user_id = 'pat'")
    assert await asked.inbox() == [asked.request_id]
    assert await _code(asked, "decide") is None


@pytest.mark.parametrize(
    "change", ["roles = '{one}' WHERE user_id = 'quinn'", "active = false WHERE user_id = 'pat'"]
)
async def test_claim_of_one_who_could_not_answer_any_more_keeps_nobody_away(
    runtime: Runtime, clock: MovedClock, change: str
) -> None:
    asked = await ask(runtime, clock, SITUATIONS["stands in"])
    await asked.claim()
    with pytest.raises(Refused, match="CLAIMED"):
        await runtime.org(ORG, OLLIE).approvals.decide(asked.request_id, "approved")
    await _change_members(runtime, f"SET {change}")
    await runtime.org(ORG, OLLIE).approvals.claim(asked.request_id)
    await runtime.org(ORG, OLLIE).approvals.decide(asked.request_id, "approved")
    (decision,) = await rows(runtime.database, "approval_decisions")
    assert decision["approver_id"] == "ollie"


async def test_one_who_was_named_stays_asked_whatever_their_roles(
    runtime: Runtime, clock: MovedClock
) -> None:
    asked = await ask(runtime, clock, Situation(), "plain")
    await runtime.org(ORG, OLLIE).approvals.reassign(asked.request_id, from_user="ollie", to_user="pat")
    await _change_members(runtime, "SET roles = '{}' WHERE user_id = 'pat'")
    assert await asked.inbox("mine") == [asked.request_id]
    assert await _code(asked, "decide") is None


async def _change_members(runtime: Runtime, change: str) -> None:
    async with runtime.database.transaction(None) as connection:
        await connection.execute(f"UPDATE assent.members {change}")
