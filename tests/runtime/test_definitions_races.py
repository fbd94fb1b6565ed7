"""Two publish at once: staged with the lock that they wait for, never with luck."""

import asyncio

import pytest

from assent.definitions import archive, publish_contract, publish_flow, publish_patch
from assent.definitions.recompile import recompile_definition
from assent.model.actor import SYSTEM
from assent.model.problems import Invalid
from tests.plain_sql import wait_until_blocked
from tests.postgres import START
from tests.runtime.definitions import (
    OTHER_SLOT,
    contract,
    definition_rows,
    flow,
    older_compiler,
    patch,
    statuses,
)
from tests.world import publish


async def first_then_second(database, first, second):
    """`first` publishes and holds its lock; `second` provably waits for it; then `first` commits."""

    async def run_second(waiter):
        async with database.transaction(None) as connection:
            waiter.set_result(connection)
            return await second(connection)

    async with database.transaction(None) as observer:
        async with database.transaction(None) as connection:
            done = await first(connection)
            waiter = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(run_second(waiter))
            await wait_until_blocked(observer, await waiter)
        return done, await task


def publishing(source, org_id="acme"):
    async def work(connection):
        if "patch" in source:
            return await publish_patch(connection, org_id, source, SYSTEM, START)
        return await publish_flow(connection, org_id, source, SYSTEM, START)

    return work


async def test_two_versions_of_a_flow_published_at_once_are_two_versions(database):
    await first_then_second(database, publishing(flow(1)), publishing(flow(2)))
    assert await statuses(database, "flow", "hello", "acme") == [(1, "archived"), (2, "published")]


async def test_one_flow_published_twice_at_once_is_one_version(database):
    first, second = await first_then_second(database, publishing(flow()), publishing(flow()))
    assert (first.changed, second.changed, first.source.id) == (True, False, second.source.id)
    assert len(await definition_rows(database)) == 1


async def test_two_texts_of_one_version_published_at_once_are_one_and_a_refusal(database):
    with pytest.raises(Invalid) as caught:
        await first_then_second(database, publishing(flow()), publishing(flow(name="Other")))
    assert [problem.code for problem in caught.value.problems] == ["VERSION_TAKEN"]
    assert await statuses(database, "flow", "hello", "acme") == [(1, "published")]


async def test_two_patches_published_at_once_are_both_in_the_workflow(database):
    await publish(database, contract())
    finance, intake = patch("finance"), patch("intake", slot=OTHER_SLOT)
    await first_then_second(database, publishing(finance), publishing(intake))
    (current,) = await definition_rows(
        database, definition_kind="effective", org_id="acme", status="published"
    )
    assert [found["patch"] for found in current["body_patches_json"]] == ["finance", "intake"]


async def test_one_name_for_patches_of_two_entity_types_at_once_is_one_and_a_refusal(database):
    await publish(database, contract())
    await publish(database, contract(contract="credit_note"))
    other = {**patch("finance"), "base": {"entity_type": "credit_note", "envelope_version": 1}}
    with pytest.raises(Invalid) as caught:
        await first_then_second(database, publishing(patch("finance")), publishing(other))
    assert [problem.code for problem in caught.value.problems] == ["NAME_TAKEN"]


async def test_one_contract_published_twice_at_once_is_kept_once(database):
    async def boot(connection):
        return await publish_contract(connection, contract(), SYSTEM, START)

    first, second = await first_then_second(database, boot, boot)
    assert (first.changed, second.changed) == (True, False)
    assert len(await definition_rows(database)) == 2


async def test_a_patch_that_waited_for_an_archiving_is_compiled_without_what_was_archived(database):
    await publish(database, contract())
    finance = (await publish(database, patch("finance"), "acme")).source

    async def archiving(connection):
        return await archive(connection, "acme", finance.id, SYSTEM, START)

    await first_then_second(database, archiving, publishing(patch("other")))
    (current,) = await definition_rows(
        database, definition_kind="effective", org_id="acme", status="published"
    )
    assert [found["patch"] for found in current["body_patches_json"]] == ["other"]


async def test_recompiling_that_waited_for_a_new_version_does_not_take_its_place(database):
    with older_compiler():
        stale = (await publish(database, flow(), "acme")).source

    async def recompiling(connection):
        return await recompile_definition(connection, "acme", stale.id, SYSTEM, START)

    _, recompiled = await first_then_second(database, publishing(flow(2)), recompiling)
    assert recompiled.new.status == "archived"
    (current,) = await definition_rows(database, status="published")
    assert current["source_json"]["version"] == 2


async def test_other_orgs_and_other_flows_do_not_wait(database):
    async with database.transaction(None) as holder:
        await publish_flow(holder, "acme", flow(), SYSTEM, START)
        await publish(database, flow(), "globex")
        await publish(database, flow(key="other"), "acme")
    assert len(await definition_rows(database)) == 3
