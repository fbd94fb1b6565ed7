"""Approval chains: kept under a name, checked like a node's approvers, and one stage after the other for who asks."""

import pytest

from assent.approvals import find_people, keep_chain, list_chains, read_chain
from assent.model.problems import Invalid
from tests.approvals.staff import DIRECTORY, asked, find, names, skipped, wanted
from tests.postgres import START

LARGE = {
    "chain": "large purchases",
    "entity_type": "invoice",
    "steps": [
        {"name": "finance", "approvers": {"role": "finance"}, "mode": "quorum", "quorum": 2, "due": "24h"},
        {"name": "head", "approvers": {"manager": True, "levels": 3}},
        {"name": "counsel", "approvers": {"role": "legal", "pick": "round_robin"}, "mode": "all"},
        {"name": "last", "approvers": {"user": "cal"}},
    ],
}

BAD_STEPS = {
    "two ways": ({"approvers": {"role": "x", "user": "y"}}, "BAD_VALUE", ("steps", 0, "approvers")),
    "a rule": ({"approvers": {"rule": "org.x"}}, "BAD_VALUE", ("steps", 0, "approvers")),
    "a permission": ({"approvers": {"permission": "update"}}, "BAD_VALUE", ("steps", 0, "approvers")),
    "an expression": ({"approvers": {"manager": "entity.owner"}}, "BAD_VALUE", ("steps", 0, "approvers")),
    "a chain": ({"approvers": {"chain": "other"}}, "BAD_VALUE", ("steps", 0, "approvers")),
    "no approvers": ({"approvers": None}, "WRONG_TYPE", ("steps", 0, "approvers")),
    "quorum alone": ({"quorum": 2}, "BAD_VALUE", ("steps", 0)),
    "mode": ({"mode": "most"}, "BAD_VALUE", ("steps", 0, "mode")),
    "due": ({"due": "soon"}, "BAD_DURATION", ("steps", 0, "due")),
    "key": ({"colour": "red"}, "UNKNOWN_KEY", ("steps", 0, "colour")),
    "reserved": ({"name": "escalation"}, "RESERVED_NAME", ("steps",)),
}


async def _keep(connection, **given):
    return await keep_chain(connection, "acme", LARGE | given, START)


async def _problems(connection, data):
    with pytest.raises(Invalid) as caught:
        await keep_chain(connection, "acme", data, START)
    return caught.value.problems


async def test_chain_that_was_kept_is_read_as_it_was_kept(acme):
    kept = await _keep(acme)
    assert await read_chain(acme, "acme", "large purchases") == kept
    assert [(s.name, s.mode, s.quorum, s.due_seconds) for s in kept.steps] == [
        ("finance", "quorum", 2, 86_400),
        ("head", "any", None, None),
        ("counsel", "all", None, None),
        ("last", "any", None, None),
    ]


async def test_chain_is_replaced_under_its_name_and_keeps_its_id(acme):
    before = await _keep(acme)
    after = await _keep(acme, steps=[{"name": "cfo", "approvers": {"user": "cal"}}], entity_type=None)
    assert after.id == before.id
    assert await list_chains(acme, "acme") == [after]
    assert (after.entity_type, [step.name for step in after.steps]) == (None, ["cfo"])


async def test_chains_are_listed_by_name_also_those_out_of_use(acme):
    await _keep(acme, chain="b", active=False)
    await _keep(acme, chain="a")
    assert [(chain.name, chain.active) for chain in await list_chains(acme, "acme")] == [
        ("a", True),
        ("b", False),
    ]


async def test_chain_of_another_org_is_not_there(staffed):
    async with staffed.transaction("globex") as connection:
        await keep_chain(connection, "globex", LARGE, START)
    async with staffed.transaction("acme") as connection:
        assert await read_chain(connection, "acme", "large purchases") is None


@pytest.mark.parametrize("case", BAD_STEPS)
async def test_step_that_is_wrong_is_a_problem_and_nothing_is_kept(acme, case):
    change, code, path = BAD_STEPS[case]
    step = {"name": "one", "approvers": {"role": "finance"}} | change
    problems = await _problems(acme, LARGE | {"steps": [step]})
    assert (problems[0].code, problems[0].path) == (code, path)
    assert await list_chains(acme, "acme") == []


async def test_names_of_steps_are_their_own_and_there_is_one_at_least(acme):
    twice = [{"name": "one", "approvers": {"user": "cal"}}] * 2
    assert (await _problems(acme, LARGE | {"steps": twice}))[0].code == "DUPLICATE_NAME"
    assert (await _problems(acme, LARGE | {"steps": []}))[0].path == ("steps",)
    many = [{"name": f"s{n}", "approvers": {"user": "cal"}} for n in range(21)]
    assert (await _problems(acme, LARGE | {"steps": many}))[0].path == ("steps",)


async def test_all_problems_of_a_chain_are_told(acme):
    bad = [{"name": "A B", "approvers": {"role": "x"}}, {"name": "two", "due": "soon"}]
    problems = await _problems(acme, {"chain": "", "steps": bad})
    assert {problem.path for problem in problems} == {
        ("chain",),
        ("steps", 0, "name"),
        ("steps", 1, "approvers"),
        ("steps", 1, "due"),
    }


async def test_chain_asks_one_group_after_the_other(acme):
    kept = await _keep(acme)
    found = await find(acme, wanted("chain", "large purchases"), entity_type="invoice")
    assert found.chain_id == kept.id
    assert [(g.name, g.stage, g.mode, g.quorum, g.due_seconds) for g in found.groups] == [
        ("finance", 1, "quorum", 2, 86_400),
        ("head", 2, "any", None, None),
        ("counsel", 3, "all", None, None),
        ("last", 4, "any", None, None),
    ]
    people = [[person.user_id for person in group.people] for group in found.groups]
    assert people == [["fay", "fin", "flo"], ["dan"], ["fin"], ["cal"]]
    assert skipped(found) == {"gus": "inactive"}


@pytest.mark.parametrize("given", [{"active": False}, {"entity_type": "order"}])
async def test_chain_out_of_use_or_for_something_else_is_not_found(acme, given):
    await _keep(acme, **given)
    wave = [asked(wanted("chain", "large purchases"), entity_type="invoice"), asked(wanted("users", "cal"))]
    refused, other = await find_people(acme, DIRECTORY, wave, START)
    assert refused.code == "CHAIN_NOT_FOUND"
    assert names(other) == ["cal"]


async def test_chain_that_was_never_kept_is_not_found(acme):
    (refused,) = await find_people(acme, DIRECTORY, [asked(wanted("chain", "ghost"))], START)
    assert (refused.code, "`ghost`" in refused.message) == ("CHAIN_NOT_FOUND", True)


async def test_chain_that_is_not_found_uses_up_nobodys_turn(acme):
    groups = (wanted("chain", "ghost", name="a"), wanted("roles", "finance", name="b", pick="round_robin"))
    await find_people(acme, DIRECTORY, [asked(*groups)], START)
    assert await acme.fetchval("SELECT count(*) FROM assent.approval_turns") == 0
