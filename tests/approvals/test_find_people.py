"""Who is asked: each way to find somebody, what is passed over, and all of a wave at once."""

from uuid import UUID

import pytest

from assent.approvals import APPROVERS_MAX, find_people
from assent.model.approval import FoundPeople
from assent.model.mutation import Rejection
from assent.people import Member
from tests.approvals.staff import DIRECTORY, asked, find, names, skipped, wanted
from tests.postgres import START
from tests.rows import (
    change_of,
    insert_entity,
    insert_instance_of,
    insert_member,
    insert_request_about,
    read_entity,
    write_entities,
)


async def test_users_are_found_by_name_with_their_mail(acme):
    found = await find(acme, wanted("users", "fay", "cal"))
    people = [(p.user_id, p.via, p.email) for p in found.groups[0].people]
    assert people == [("fay", "user", "fay@acme.example"), ("cal", "user", None)]


async def test_somebody_who_has_left_and_somebody_unknown_are_skipped_and_recorded(acme):
    found = await find(acme, wanted("users", "gus", "nobody", "fay"))
    assert names(found) == ["fay"]
    assert skipped(found) == {"gus": "inactive", "nobody": "unknown"}


async def test_role_finds_all_its_active_users_and_records_who_left(acme):
    found = await find(acme, wanted("roles", "finance"))
    assert [(p.user_id, p.via) for p in found.groups[0].people] == [
        ("fay", "role:finance"),
        ("fin", "role:finance"),
        ("flo", "role:finance"),
    ]
    assert skipped(found) == {"gus": "inactive"}


async def test_service_account_is_not_asked_for_its_role(acme):
    assert "bot" not in names(await find(acme, wanted("roles", "finance")))


async def test_person_with_two_of_the_roles_counts_once(acme):
    found = await find(acme, wanted("roles", "legal", "finance"))
    assert [(p.user_id, p.via) for p in found.groups[0].people] == [
        ("fin", "role:legal"),
        ("fay", "role:finance"),
        ("flo", "role:finance"),
    ]


async def test_person_who_is_named_twice_counts_once(acme):
    assert names(await find(acme, wanted("users", "fay", "fay"))) == ["fay"]


async def test_role_that_nobody_has_is_an_empty_group(acme):
    found = await find(acme, wanted("roles", "astronaut"))
    assert found.groups[0].people == found.groups[0].skipped == ()


async def test_manager_who_has_left_is_passed_over_to_the_next_one_up(acme):
    found = await find(acme, wanted("manager", "ann"))
    assert [(p.user_id, p.via) for p in found.groups[0].people] == [("cal", "manager:ann")]
    assert skipped(found) == {"bob": "inactive"}


@pytest.mark.parametrize(("levels", "found"), [(1, ["cal"]), (2, ["cal"]), (3, ["dan"]), (4, [])])
async def test_manager_is_so_many_levels_up(acme, levels, found):
    assert names(await find(acme, wanted("manager", "ann", levels=levels))) == found


async def test_nobody_is_above_the_top(acme):
    assert names(await find(acme, wanted("manager", "dan"))) == []


async def test_managers_of_somebody_unknown_are_nobody(acme):
    assert names(await find(acme, wanted("manager", "stranger"))) == []


async def test_line_of_managers_that_comes_back_ends(acme):
    await acme.execute("UPDATE assent.members SET manager_id = 'bob' WHERE user_id = 'dan'")
    assert names(await find(acme, wanted("manager", "ann", levels=3))) == ["dan"]
    assert names(await find(acme, wanted("manager", "ann", levels=4))) == []
    # Above cal are dan and bob, who has left, and then cal again: nobody is above themselves.
    assert names(await find(acme, wanted("manager", "cal", levels=1))) == ["dan"]
    assert names(await find(acme, wanted("manager", "cal", levels=2))) == []


async def test_line_of_managers_ends_also_where_all_have_left(acme):
    await acme.execute("UPDATE assent.members SET active = false WHERE user_id IN ('cal', 'dan')")
    found = await find(acme, wanted("manager", "ann"))
    assert names(found) == []
    assert skipped(found) == dict.fromkeys(("bob", "cal", "dan"), "inactive")


@pytest.mark.parametrize(
    ("capability", "roles", "found"),
    [
        ("invoice:approve", (), ["cal"]),
        ("invoice:approve", ("director",), ["dan", "cal"]),
        ("order:approve", (), []),
        ("invoice", (), []),
    ],
)
async def test_permission_finds_whom_the_contract_and_the_org_permit(acme, capability, roles, found):
    assert names(await find(acme, wanted("permission", capability, *roles))) == found


async def test_somebody_who_may_do_everything_may_do_this(acme):
    await acme.execute("INSERT INTO assent.role_capabilities VALUES ('acme', 'director', '*')")
    assert set(names(await find(acme, wanted("permission", "order:approve")))) == {"dan"}


async def test_groups_keep_their_names_modes_and_numbers(acme):
    groups = (
        wanted("roles", "finance", name="finance", mode="quorum", quorum=2),
        wanted("users", "cal", name="head", mode="all"),
    )
    found = await find(acme, *groups)
    assert [(g.name, g.mode, g.quorum, g.stage) for g in found.groups] == [
        ("finance", "quorum", 2, 0),
        ("head", "all", None, 0),
    ]


async def test_same_name_in_another_org_is_another_person(staffed):
    async with staffed.transaction(None) as connection:
        wave = [asked(wanted("roles", "finance"), org_id=org) for org in ("globex", "acme", "initech")]
        found = await find_people(connection, DIRECTORY, wave, START)
    assert [names(one) for one in found] == [["ann", "fay", "zoe"], ["fay", "fin", "flo"], []]


async def test_more_people_than_a_request_may_ask_are_refused_and_the_others_answered(acme):
    for number in range(APPROVERS_MAX + 1):
        await insert_member(acme, user_id=f"u{number:03}", roles=["crowd"])
    wave = [asked(wanted("roles", "crowd")), asked(wanted("users", "fay"))]
    crowd, one = await find_people(acme, DIRECTORY, wave, START)
    assert isinstance(crowd, Rejection)
    assert (crowd.code, one) == ("TOO_MANY_APPROVERS", await find(acme, wanted("users", "fay")))
    assert names(await find(acme, wanted("roles", "crowd", pick="round_robin"))) == ["u000"]


async def test_limit_counts_the_people_of_all_groups(acme):
    for number in range(APPROVERS_MAX):
        await insert_member(acme, user_id=f"u{number:03}", roles=["crowd"])
    assert len(names(await find(acme, wanted("roles", "crowd")))) == APPROVERS_MAX
    groups = (wanted("roles", "crowd", name="a"), wanted("users", "fay", name="b"))
    (refused,) = await find_people(acme, DIRECTORY, [asked(*groups)], START)
    assert refused.code == "TOO_MANY_APPROVERS"


async def test_contributors_are_those_who_edited_since_the_last_applied_approval(acme):
    entity = await insert_entity(acme, actor_id="ann")
    await write_entities(acme, change_of(entity, data={"number": "2"}, actor_id="fay"))
    entity = await read_entity(acme, "acme", entity["id"])
    about = {"entity_type": "invoice", "entity_id": entity["id"]}
    assert (await find(acme, wanted("users", "cal"), **about)).contributors == {"ann", "fay"}
    await insert_request_about(acme, entity, status="approved", applied_at=START)
    assert (await find(acme, wanted("users", "cal"), **about)).contributors == frozenset()
    await write_entities(acme, change_of(entity, data={"number": "3"}, actor_id="flo"))
    assert (await find(acme, wanted("users", "cal"), **about)).contributors == {"flo"}


async def test_approval_that_was_not_applied_forgives_nobody(acme):
    entity = await insert_entity(acme, actor_id="ann")
    await insert_request_about(acme, entity, status="approved")
    await insert_request_about(acme, entity, status="rejected")
    found = await find(acme, wanted("users", "cal"), entity_type="invoice", entity_id=entity["id"])
    assert found.contributors == {"ann"}


async def test_workflow_and_system_contribute_nothing(acme):
    entity = await insert_entity(acme, actor_id="ann")
    instance = await insert_instance_of(acme, entity)
    own = {"data": {"number": "2"}, "actor_id": "fin", "written_by_instance": instance["id"]}
    await write_entities(acme, change_of(entity, **own))
    entity = await read_entity(acme, "acme", entity["id"])
    robot = {"data": {"number": "3"}, "actor_id": "system", "actor_kind": "system"}
    await write_entities(acme, change_of(entity, **robot))
    found = await find(acme, wanted("users", "cal"), entity_type="invoice", entity_id=entity["id"])
    assert found.contributors == {"ann"}


async def test_flow_without_an_entity_has_no_contributors(acme):
    assert (await find(acme, wanted("users", "cal"))).contributors == frozenset()


async def test_statements_of_a_wave_do_not_depend_on_how_many_ask(staffed, statement_counter):
    groups = (
        wanted("users", "cal", name="a"),
        wanted("roles", "finance", name="b", pick="round_robin"),
        wanted("manager", "ann", name="c"),
        wanted("permission", "invoice:approve", name="d"),
        wanted("roles", "legal", name="e", pick="first_available"),
    )
    counts = []
    for size in (1, 1, 100):  # with the first, the driver asks what it does not know yet
        async with staffed.transaction("acme") as connection:
            statement_counter.clear()
            wave = [asked(*groups, entity_id=UUID(int=number + 1)) for number in range(size)]
            found = await find_people(connection, DIRECTORY, wave, START)
            counts.append(len(statement_counter))
        assert all(isinstance(one, FoundPeople) and names(one) for one in found)
    assert counts[1] == counts[2] == 9


class OwnPeople:
    """What an application with people of its own would bring."""

    async def with_roles(self, connection, wanted):
        return {key: [Member("x1", active=False), Member("x2", email="x2@own.example")] for key in wanted}

    async def by_id(self, connection, wanted):
        return {key: Member(key[1]) for key in wanted if key[1].startswith("x")}

    async def managers(self, connection, wanted):
        return {key: [Member("x3")] for key in wanted}


async def test_application_brings_its_own_people(acme):
    groups = (
        wanted("roles", "finance", name="a"),
        wanted("users", "x9", "fay", name="b"),
        wanted("manager", "ann", name="c"),
    )
    (found,) = await find_people(acme, OwnPeople(), [asked(*groups)], START)
    assert names(found) == ["x2", "x9", "x3"]
    assert skipped(found) == {"x1": "inactive", "fay": "unknown"}
    assert found.groups[0].people[0].email == "x2@own.example"
