"""Standing in for somebody: who may say so, for how long, for what, and that it is never handed on."""

from datetime import datetime, timedelta

import pytest

from assent.model.actor import Actor
from assent.model.mutation import Refused
from assent.people import NewDelegation, delegate, list_delegations, load_delegations, revoke
from assent.people.delegations import REASON_LENGTH_MAX, SCOPE_NAMES_MAX, KeptDelegation, find_present
from tests.approvals.staff import DIRECTORY
from tests.postgres import START

FAY, FIN = Actor("fay"), Actor("fin")
ADMIN = Actor("dan", capabilities=frozenset({"approvals:delegate"}))
PROGRAM = Actor("bot", "service_account", capabilities=frozenset({"approvals:delegate"}), maker_id="dan")
DAY = timedelta(days=1)

REFUSED = {
    "by another": ({}, FIN, "POLICY_DENIED", ("actor",)),
    "to oneself": ({"to_user": "fay"}, FAY, "BAD_VALUE", ("to_user",)),
    "to nobody": ({"to_user": "stranger"}, FAY, "NOT_FOUND", ("to_user",)),
    "of nobody": ({"from_user": "stranger"}, ADMIN, "NOT_FOUND", ("from_user",)),
    "to who left": ({"to_user": "gus"}, FAY, "INACTIVE", ("to_user",)),
    "of who left": ({"from_user": "gus"}, ADMIN, "INACTIVE", ("from_user",)),
    "to its maker": ({"to_user": "dan"}, ADMIN, "SEPARATION_OF_DUTIES", ("to_user",)),
    "to its maker by a program": ({"to_user": "dan"}, PROGRAM, "SEPARATION_OF_DUTIES", ("to_user",)),
    "to a program": ({"to_user": "bot"}, ADMIN, "BAD_VALUE", ("to_user",)),
    "ends first": ({"starts_at": START + DAY, "ends_at": START + DAY}, FAY, "BAD_DATES", ("ends_at",)),
    "ended": ({"starts_at": START - 2 * DAY, "ends_at": START - DAY}, FAY, "BAD_DATES", ("ends_at",)),
    "ends now": ({"ends_at": START}, FAY, "BAD_DATES", ("ends_at",)),
    "no zone": ({"starts_at": datetime(2026, 3, 2)}, FAY, "BAD_DATES", ("starts_at",)),  # noqa: DTZ001
    "to an administrator by themselves": ({"to_user": "dan"}, ADMIN, "SEPARATION_OF_DUTIES", ("to_user",)),
    "to a service account": ({"to_user": "bot"}, FAY, "BAD_VALUE", ("to_user",)),
    "scope": ({"workflows": ("w",) * (SCOPE_NAMES_MAX + 1)}, FAY, "TOO_LONG", ("workflows",)),
    "reason": ({"reason": "x" * (REASON_LENGTH_MAX + 1)}, FAY, "TOO_LONG", ("reason",)),
}


def _wish(**given):
    return NewDelegation(**{"org_id": "acme", "from_user": "fay", "to_user": "fin"} | given)


async def _delegate(connection, by=FAY, now=START, **given):
    kept = await delegate(connection, DIRECTORY, _wish(**given), by, now)
    assert isinstance(kept, KeptDelegation), kept
    return kept


async def _lent_to(connection, user_id, now=START):
    found = await load_delegations(connection, [("acme", user_id)], now)
    return [delegation.from_user for delegation in found.get(("acme", user_id), ())]


async def test_delegation_is_kept_with_both_names_and_who_said_so(acme):
    kept = await _delegate(acme, ADMIN, ends_at=START + DAY, entity_types=("invoice",), reason="holiday")
    assert (kept.from_user, kept.to_user, kept.created_by, kept.reason) == ("fay", "fin", "dan", "holiday")
    assert await list_delegations(acme, "acme") == [kept]


@pytest.mark.parametrize("case", REFUSED)
async def test_delegation_is_refused(acme, case):
    given, by, code, path = REFUSED[case]
    with pytest.raises(Refused) as refused:
        await delegate(acme, DIRECTORY, _wish(**given), by, START)
    assert (refused.value.code, refused.value.rejection.path) == (code, path)
    assert await list_delegations(acme, "acme") == []


async def test_somebody_of_another_org_cannot_stand_in(acme):
    with pytest.raises(Refused, match="NOT_FOUND"):
        await delegate(acme, DIRECTORY, _wish(to_user="zoe"), FAY, START)


async def test_delegation_said_to_have_begun_earlier_begins_now(acme):
    assert (await _delegate(acme, starts_at=START - DAY)).starts_at == START


async def test_delegation_holds_from_its_start_until_its_end(acme):
    midnight = START.replace(hour=0) + DAY
    await _delegate(acme, starts_at=START + timedelta(hours=1), ends_at=midnight)
    moments = {
        "before": START,
        "at its start": START + timedelta(hours=1),
        "on its last day": midnight - timedelta(microseconds=1),
        "at its end": midnight,
    }
    found = {name: await _lent_to(acme, "fin", at) for name, at in moments.items()}
    assert found == {"before": [], "at its start": ["fay"], "on its last day": ["fay"], "at its end": []}


async def test_delegation_without_an_end_holds_until_it_is_revoked(acme):
    kept = await _delegate(acme)
    later = START + timedelta(days=5_000)
    assert await _lent_to(acme, "fin", later) == ["fay"]
    revoked = await revoke(acme, "acme", kept.id, FAY, later)
    assert revoked.revoked_at == later
    assert await _lent_to(acme, "fin", later) == []


async def test_delegation_says_what_it_is_about(acme):
    await _delegate(acme, entity_types=("invoice",), workflows=("orders.approval",))
    ((delegation,),) = (await load_delegations(acme, [("acme", "fin")], START)).values()
    assert (delegation.entity_types, delegation.workflows) == (("invoice",), ("orders.approval",))
    assert (delegation.from_user, delegation.to_user) == ("fay", "fin")


async def test_what_was_delegated_to_somebody_is_not_handed_on(acme):
    await _delegate(acme)
    await _delegate(acme, FIN, from_user="fin", to_user="flo")
    assert await _lent_to(acme, "flo") == ["fin"]


async def test_several_people_and_orgs_are_read_at_once(staffed, statement_counter):
    async with staffed.transaction(None) as connection:
        await _delegate(connection)
        await _delegate(connection, Actor("flo"), from_user="flo")
        foreign = NewDelegation("globex", "fay", "zoe")
        await delegate(connection, DIRECTORY, foreign, FAY, START)
        statement_counter.clear()
        asked = [("acme", "fin"), ("globex", "fin"), ("globex", "zoe"), ("acme", "nobody")]
        found = await load_delegations(connection, asked, START)
        assert len(statement_counter) == 1
    who = {person: sorted(d.from_user for d in delegations) for person, delegations in found.items()}
    assert who == {("acme", "fin"): ["fay", "flo"], ("globex", "zoe"): ["fay"]}


async def test_nobody_asked_is_nobody_found(acme):
    assert await load_delegations(acme, [], START) == {}


@pytest.mark.parametrize("by", [FAY, ADMIN])
async def test_delegation_is_revoked_by_whom_it_is_of_or_who_has_the_right(acme, by):
    kept = await _delegate(acme)
    assert (await revoke(acme, "acme", kept.id, by, START)).revoked_at == START


async def test_delegation_is_not_revoked_by_another_and_stays(acme):
    kept = await _delegate(acme)
    with pytest.raises(Refused) as refused:
        await revoke(acme, "acme", kept.id, FIN, START)
    assert (refused.value.code, refused.value.rejection.path) == ("POLICY_DENIED", ("actor",))
    assert await _lent_to(acme, "fin") == ["fay"]


async def test_delegation_that_was_revoked_stays_revoked_since_then(acme):
    kept = await _delegate(acme)
    first = await revoke(acme, "acme", kept.id, FAY, START)
    assert await revoke(acme, "acme", kept.id, FAY, START + DAY) == first


async def test_delegation_of_another_org_is_not_found(staffed):
    async with staffed.transaction("acme") as connection:
        kept = await _delegate(connection)
    async with staffed.transaction("globex") as connection:
        with pytest.raises(Refused, match="NOT_FOUND"):
            await revoke(connection, "globex", kept.id, ADMIN, START)
        assert await list_delegations(connection, "globex") == []


async def test_delegations_are_listed_of_and_to_somebody_and_by_whether_they_are_over(acme):
    over = await _delegate(acme, ends_at=START + DAY)
    to_come = await _delegate(acme, starts_at=START + 9 * DAY)
    revoked = await _delegate(acme)
    await revoke(acme, "acme", revoked.id, FAY, START)
    other = await _delegate(acme, Actor("flo"), from_user="flo", to_user="cal")
    by_id = [found.id for found in await list_delegations(acme, "acme")]
    assert by_id == [other.id, revoked.id, to_come.id, over.id]
    for person in ("fay", "fin"):
        found = await list_delegations(acme, "acme", person, open_at=START + 2 * DAY)
        assert [one.id for one in found] == [to_come.id]


async def test_members_who_are_known_are_there_as_the_database_says(acme):
    """A command reads the member who gives it with its target; what it knows of them must be what a search finds."""
    members = await acme.fetch(
        "SELECT user_id, kind, roles, active FROM assent.members WHERE org_id = 'acme'"
    )
    known = {
        ("acme", row["user_id"]): (row["kind"], row["roles"]) if row["active"] else None for row in members
    }
    roles = {role for row in members for role in row["roles"]}
    asked = {("acme", row["user_id"], role) for row in members for role in (None, *roles)}
    found = await find_present(acme, DIRECTORY, asked)
    assert await find_present(acme, DIRECTORY, asked, known) == found
    assert asked > found > set()
