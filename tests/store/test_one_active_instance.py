"""One active instance per entity, and one instance per idempotency key and org."""

import pytest

from tests.plain_sql import UNIQUE, refused
from tests.postgres import START
from tests.rows import insert_entity, insert_instance, insert_instance_of, update

ONE_ACTIVE = "one_active_instance_per_entity"


@pytest.mark.parametrize("second", ["running", "paused"])
@pytest.mark.parametrize("first", ["running", "paused"])
async def test_entity_has_no_second_active_instance(owner, first, second):
    entity = await insert_entity(owner)
    await insert_instance_of(owner, entity, status=first)
    async with refused(owner, UNIQUE, constraint=ONE_ACTIVE):
        await insert_instance_of(owner, entity, status=second)


@pytest.mark.parametrize("ended", ["completed", "failed", "cancelled"])
async def test_next_instance_starts_when_the_first_has_ended(owner, ended):
    entity = await insert_entity(owner)
    first = await insert_instance_of(owner, entity)
    await update(owner, "workflow_instances", first, status=ended, completed_at=START)
    await insert_instance_of(owner, entity)
    async with refused(owner, UNIQUE, constraint=ONE_ACTIVE):
        await insert_instance_of(owner, entity)


async def test_ended_instances_of_an_entity_are_all_kept(owner):
    entity = await insert_entity(owner)
    for status in ("completed", "completed", "failed", "cancelled", "running"):
        await insert_instance_of(owner, entity, status=status)
    assert await owner.fetchval("SELECT count(*) FROM assent.workflow_instances") == 5


async def test_instances_without_an_entity_do_not_get_in_each_other_s_way(owner):
    for _ in range(3):
        await insert_instance(owner)


async def test_same_entity_id_in_two_orgs_is_two_entities(owner):
    entity = await insert_entity(owner)
    twin = await insert_entity(owner, org_id="globex", entity_id=entity["id"])
    await insert_instance_of(owner, entity)
    await insert_instance_of(owner, twin)


async def test_idempotency_key_is_unique_in_its_org_also_after_the_end(owner):
    await insert_instance(owner, idempotency_key="order-7", status="completed")
    async with refused(owner, UNIQUE, constraint="instance_idempotency_key_is_unique"):
        await insert_instance(owner, idempotency_key="order-7")
    await insert_instance(owner, idempotency_key="order-7", org_id="globex")


async def test_any_number_of_instances_have_no_idempotency_key(owner):
    for _ in range(3):
        assert (await insert_instance(owner))["idempotency_key"] is None
