"""The inbox: mine, my roles', delegated to me; filtered, sorted and paged, and never what is not for me to answer."""

from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from assent.model.mutation import Refused
from assent.people import InboxQuery, count_inbox, read_inbox
from assent.people.inbox import PAGE_ITEMS_MAX, TEXT_LENGTH_MAX, Count
from tests.postgres import START
from tests.rows import (
    change_of,
    insert,
    insert_decision,
    insert_entity,
    insert_instance,
    insert_request,
    insert_request_about,
    insert_seat,
    update,
    write_entities,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = START + 10 * DAY

_NUMBERS = iter(range(1, 1_000_000))


async def _ask(connection, title, *people, via="user", at=START, workflow="invoice", **given):
    """A request, with a seat for each of these people."""
    org_id = given.get("org_id", "acme")
    instance = await insert_instance(connection, workflow_id=workflow, org_id=org_id)
    request = await insert_request(
        connection, instance_id=instance["id"], title=title, created_at=at, **given
    )
    for person in people:
        seat_id = UUID(int=(7 << 76) | next(_NUMBERS))
        await insert_seat(connection, request, id=seat_id, user_id=person, via=via, created_at=at)
    return request


async def _delegate(connection, from_user, to_user, **given):
    columns = {"from_user": from_user, "to_user": to_user, "created_by": from_user}
    await insert(connection, "approval_delegations", **columns | given)


async def _page(connection, user_id="fay", now=NOW, **given):
    return await read_inbox(connection, "acme", user_id, InboxQuery(**given), now)


async def _titles(connection, user_id="fay", **given):
    return [item.title for item in (await _page(connection, user_id, **given)).items]


async def _all_titles(connection, **given):
    """The titles of every page."""
    found, cursor = [], None
    while True:
        page = await _page(connection, cursor=cursor, **given)
        found += [item.title for item in page.items]
        if (cursor := page.next) is None:
            return found


async def test_item_says_what_is_asked(acme):
    entity = await insert_entity(acme, state="submitted")
    instance = await insert_instance(acme, workflow_id="invoice")
    request = await insert_request_about(
        acme,
        entity,
        instance_id=instance["id"],
        node_id="usr:slot:1",
        node_name="Finance",
        title="Invoice 7",
        figure=2_100_000,
        due_at=START + DAY,
        requested_by="ann",
        created_at=START,
    )
    seat = await insert_seat(acme, request, user_id="fay", via="role:finance", created_at=START + HOUR)
    (item,) = (await _page(acme)).items
    assert (item.seat_id, item.request_id, item.instance_id) == (seat["id"], request["id"], instance["id"])
    assert (item.kind, item.bucket, item.group, item.via) == ("approval", "roles", "finance", "role:finance")
    assert (item.workflow, item.node_id, item.node_name) == ("invoice", "usr:slot:1", "Finance")
    assert (item.entity_type, item.entity_id, item.version) == ("invoice", entity["id"], 1)
    assert (item.state, item.title, item.figure) == ("submitted", "Invoice 7", Decimal(2_100_000))
    assert (item.requested_by, item.claimed_by, item.on_behalf_of) == ("ann", None, None)
    assert (item.asked_at, item.age) == (START + HOUR, 10 * DAY - HOUR)
    assert (item.due_at, item.overdue) == (START + DAY, True)


async def test_flow_without_an_entity_and_without_a_name_for_its_step_is_shown_too(acme):
    await _ask(acme, None, "fay", node_id="review", workflow="orders.approval")
    (item,) = (await _page(acme)).items
    assert (item.node_name, item.entity_id, item.state, item.overdue) == ("review", None, None, False)


async def test_only_open_seats_are_shown(acme):
    request = await _ask(acme, "asked", "fay")
    for status in ("later", "decided", "closed"):
        other = await _ask(acme, status)
        await insert_seat(acme, other, user_id="fay", status=status)
    assert await _titles(acme) == ["asked"]
    await acme.execute("UPDATE assent.workflow_seats SET status = 'closed' WHERE status = 'open'")
    assert await _titles(acme) == []
    assert request["status"] == "pending"


async def test_edit_takes_its_question_out_of_the_inbox(acme):
    entity = await insert_entity(acme)
    request = await insert_request_about(acme, entity, title="void")
    await insert_seat(acme, request, user_id="fay")
    assert await _titles(acme) == ["void"]
    await write_entities(acme, change_of(entity, data={"number": "2"}))
    assert await _titles(acme) == []


async def test_buckets_are_mine_my_roles_and_delegated_to_me(acme):
    await _delegate(acme, "fin", "fay")
    await _ask(acme, "own", "fay")
    await _ask(acme, "manager", "fay", via="manager:ann")
    await _ask(acme, "role", "fay", via="role:finance", due_at=START)
    await _ask(acme, "lent", "fin", via="role:finance", due_at=START)
    await _ask(acme, "lent too", "fin")
    await _ask(acme, "another's", "flo")
    found = {bucket: await _titles(acme, bucket=bucket) for bucket in ("mine", "roles", "delegated")}
    assert found == {"mine": ["own", "manager"], "roles": ["role"], "delegated": ["lent", "lent too"]}
    counts = await count_inbox(acme, "acme", "fay", NOW)
    assert (counts.mine, counts.roles, counts.delegated) == (Count(2), Count(1, 1), Count(2, 1))


async def test_delegated_item_says_for_whom(acme):
    await _delegate(acme, "fin", "fay")
    await _ask(acme, "lent", "fin")
    (item,) = (await _page(acme)).items
    assert (item.bucket, item.on_behalf_of) == ("delegated", "fin")


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({}, ["order", "invoice", "flow"]),
        ({"entity_types": ["invoice"]}, ["invoice"]),
        ({"workflows": ["orders", "flows"]}, ["order", "flow"]),
        ({"entity_types": ["invoice"], "workflows": ["orders"]}, []),
        ({"starts_at": NOW + HOUR}, []),
        ({"ends_at": NOW}, []),
        ({"ends_at": NOW + HOUR}, ["order", "invoice", "flow"]),
        ({"revoked_at": START}, []),
    ],
)
async def test_delegation_lends_what_is_in_its_scope_while_it_holds(acme, scope, found):
    await _delegate(acme, "fin", "fay", **scope)
    for entity_type, workflow in (("order", "orders"), ("invoice", "invoice")):
        entity = await insert_entity(acme, entity_type=entity_type)
        instance = await insert_instance(acme, workflow_id=workflow)
        request = await insert_request_about(acme, entity, title=entity_type, instance_id=instance["id"])
        await insert_seat(acme, request, user_id="fin")
    await _ask(acme, "flow", "fin", workflow="flows", at=START + HOUR)
    assert sorted(await _titles(acme)) == sorted(found)


async def test_several_delegations_of_one_person_show_a_seat_once(acme):
    await _delegate(acme, "fin", "fay")
    await _delegate(acme, "fin", "fay", workflows=["invoice"])
    await _ask(acme, "lent", "fin")
    assert await _titles(acme) == ["lent"]
    assert (await count_inbox(acme, "acme", "fay", NOW)).delegated == Count(1)


async def test_what_was_lent_to_somebody_is_not_lent_on(acme):
    await _delegate(acme, "fin", "fay")
    await _delegate(acme, "fay", "flo")
    await _ask(acme, "fin's", "fin")
    await _ask(acme, "fay's", "fay")
    assert await _titles(acme, "flo") == ["fay's"]


async def test_stand_in_who_had_a_part_in_it_is_not_asked(acme):
    await _delegate(acme, "fin", "fay")
    await _ask(acme, "own work", "fin", originators=["ann", "fay"])
    assert await _titles(acme) == []
    assert await _titles(acme, "fin") == ["own work"]


async def test_whoever_has_answered_is_not_asked_again_in_anothers_seat(acme):
    await _delegate(acme, "fin", "fay")
    request = await _ask(acme, "answered", "fin")
    await insert_decision(acme, request_id=request["id"], approver_id="fay")
    assert await _titles(acme) == []
    assert await _titles(acme, "fin") == ["answered"]


async def test_other_orgs_are_elsewhere(staffed):
    async with staffed.transaction(None) as connection:
        await _ask(connection, "foreign", "fay", org_id="globex")
        await _ask(connection, "own", "fay")
        assert await _titles(connection) == ["own"]
    async with staffed.transaction("globex") as connection:
        assert await _titles(connection) == []


async def _filterable(connection):
    entity = await insert_entity(connection, entity_type="order")
    instance = await insert_instance(connection, workflow_id="orders")
    order = await insert_request_about(
        connection, entity, title="Order 1", instance_id=instance["id"], due_at=NOW + DAY
    )
    await insert_seat(connection, order, user_id="fay", created_at=START)
    await _ask(connection, "Late one", "fay", due_at=NOW - HOUR, at=START + HOUR)
    await _ask(connection, "100% sure", "fay", claimed_by="fay", claimed_at=NOW, at=START + 2 * HOUR)
    await _ask(connection, None, "fay", claimed_by="fin", claimed_at=NOW, at=START + 3 * HOUR)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ["Order 1", "Late one", "100% sure", None]),
        ({"kind": "approval"}, ["Order 1", "Late one", "100% sure", None]),
        ({"kind": "form"}, []),
        ({"entity_type": "order"}, ["Order 1"]),
        ({"workflow": "orders"}, ["Order 1"]),
        ({"workflow": "nothing"}, []),
        ({"overdue": True}, ["Late one"]),
        ({"overdue": False}, ["Order 1", "100% sure", None]),
        ({"due_before": NOW + 2 * DAY}, ["Order 1", "Late one"]),
        ({"due_before": NOW}, ["Late one"]),
        ({"claimed": "me"}, ["100% sure"]),
        ({"claimed": "others"}, [None]),
        ({"claimed": "unclaimed"}, ["Order 1", "Late one"]),
        ({"text": "oNe"}, ["Late one"]),
        ({"text": "%"}, ["100% sure"]),
        ({"text": "_"}, []),
        ({"overdue": True, "text": "order"}, []),
    ],
)
@pytest.mark.parametrize("sort", ["age", "due"])
async def test_filters_let_pass_what_they_say(acme, given, found, sort):
    await _filterable(acme)
    titles = await _titles(acme, sort=sort, **given)
    assert titles == found if sort == "age" else sorted(titles, key=str) == sorted(found, key=str)


SORTED = {
    "age": ["a", "b", "c", "d", "e"],
    "due": ["c", "a", "e", "b", "d"],
    "figure": ["b", "e", "a", "c", "d"],
}


async def _sortable(connection):
    for number, (title, due, figure) in enumerate(
        [("a", 2, 5), ("b", None, 9), ("c", 1, -3), ("d", None, None), ("e", 2, Decimal("5.5"))]
    ):
        due_at = START + due * DAY if due else None
        await _ask(connection, title, "fay", at=START + number * HOUR, due_at=due_at, figure=figure)


@pytest.mark.parametrize("sort", SORTED)
async def test_inbox_is_sorted_and_what_has_no_value_comes_last(acme, sort):
    await _sortable(acme)
    assert await _titles(acme, sort=sort) == SORTED[sort]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("sort", SORTED)
async def test_pages_follow_each_other_without_gap_or_repetition(acme, sort, limit):
    await _sortable(acme)
    assert await _all_titles(acme, sort=sort, limit=limit) == SORTED[sort]


async def test_pages_of_several_people_are_one_list(acme):
    for name in ("fin", "flo"):
        await _delegate(acme, name, "fay")
    for number, person in enumerate(["fay", "fin", "flo"] * 3):
        await _ask(acme, str(number), person, at=START + number * HOUR)
    assert await _all_titles(acme, limit=2) == [str(number) for number in range(9)]


async def test_seats_of_one_moment_are_paged_by_their_ids(acme):
    for number in range(5):
        await _ask(acme, str(number), "fay")
    assert await _all_titles(acme, limit=2) == ["0", "1", "2", "3", "4"]


async def test_page_that_is_exactly_full_is_the_last(acme):
    await _sortable(acme)
    assert (await _page(acme, limit=5)).next is None


@pytest.mark.parametrize("sort", SORTED)
async def test_what_comes_or_goes_between_pages_moves_nothing(acme, sort):
    await _sortable(acme)
    first = await _page(acme, sort=sort, limit=2)
    await _ask(acme, "early", "fay", at=START - DAY, due_at=START - DAY, figure=99)
    shown = [item.seat_id for item in first.items]
    await acme.execute("UPDATE assent.workflow_seats SET status = 'closed' WHERE id = ANY ($1)", shown)
    second = await _page(acme, sort=sort, limit=2, cursor=first.next)
    assert [item.title for item in second.items] == SORTED[sort][2:4]


@pytest.mark.parametrize("cursor", ["", "nonsense", "W10=", "WyJhZ2UiLDEsMl0=", "WzFd", "é"])
async def test_cursor_that_is_none_is_refused(acme, cursor):
    with pytest.raises(Refused) as refused:
        await read_inbox(acme, "acme", "fay", InboxQuery(cursor=cursor), NOW)
    assert (refused.value.code, refused.value.rejection.path) == ("BAD_CURSOR", ("cursor",))


async def test_cursor_of_another_sort_is_refused(acme):
    await _sortable(acme)
    cursor = (await _page(acme, sort="age", limit=1)).next
    with pytest.raises(Refused, match="BAD_CURSOR"):
        await read_inbox(acme, "acme", "fay", InboxQuery(sort="due", cursor=cursor), NOW)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": PAGE_ITEMS_MAX + 1}, "limit"),
        ({"text": "x" * (TEXT_LENGTH_MAX + 1)}, "text"),
    ],
)
async def test_wish_beyond_the_limits_is_refused(acme, given, path):
    with pytest.raises(Refused) as refused:
        await read_inbox(acme, "acme", "fay", InboxQuery(**given), NOW)
    assert refused.value.rejection.path == (path,)


async def test_empty_inbox_counts_nothing(acme):
    counts = await count_inbox(acme, "acme", "fay", NOW)
    assert (counts.mine, counts.roles, counts.delegated) == (Count(), Count(), Count())
    assert (await _page(acme)).next is None


@pytest.mark.parametrize("sort", ["age", "due"])
async def test_page_takes_two_statements_however_many_there_are(staffed, statement_counter, sort):
    async with staffed.transaction("acme") as connection:
        await _delegate(connection, "fin", "fay")
        for number in range(20):
            await _ask(connection, str(number), "fay", "fin")
        await _page(connection, sort=sort)
        statement_counter.clear()
        assert len((await _page(connection, sort=sort)).items) == 40
        assert len(statement_counter) == 2


async def test_claim_is_seen_at_once(acme):
    request = await _ask(acme, "claimed", "fay", "fin")
    await update(acme, "approval_requests", request, claimed_by="fin", claimed_at=NOW)
    (item,) = (await _page(acme)).items
    assert item.claimed_by == "fin"
