"""A document lives by the version of its contract that it began with, whatever is published after it."""

from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest

from assent.app import App
from assent.model.mutation import Command, Mutation, Refused, Rejection
from assent.runtime import Runtime
from assent.store.database import Connection, Database
from tests.world import (
    ANN,
    MAX,
    ORDER,
    ORDER_PATCH,
    ORG,
    actor,
    create_order,
    drain,
    edit_order,
    entity_row,
    publish,
    publish_orders,
    rows,
)

_STATES: Final = ORDER["lifecycle"]["states"]
_WAYS: Final = ORDER["lifecycle"]["transitions"]
ORDER_2: Final[dict[str, Any]] = {
    **ORDER,
    "version": 2,
    "fields": {"number": {"type": "text", "required": True}, "due": {"type": "date", "required": True}},
    "lifecycle": {
        "initial": "draft",
        "states": {name: state for name, state in _STATES.items() if name != "cancelled"},
        "transitions": {name: way for name, way in _WAYS.items() if name != "cancel"},
    },
    "permissions": {"create": ["clerk"], "update": ["manager"], "submit": ["manager"]},
}
"""Without the field `total` and the state `cancelled`; `due` is required, and only managers edit and submit."""


async def publish_second(database: Database) -> None:
    await publish(database, ORDER_2)


def second_runtime(database: Database) -> Runtime:
    """Return the runtime of a server that was deployed with version 2, with nothing in its caches."""
    return App([ORDER_2]).runtime(database)


async def versions(database: Database) -> dict[UUID, int]:
    """Return the version of the contract that each entity's instance is bound to."""
    found = {row["id"]: row for row in await rows(database, "workflow_definitions")}
    instances = await rows(database, "workflow_instances")
    return {row["entity_id"]: found[row["definition_id"]]["walls"]["envelope_version"] for row in instances}


async def test_first_document_lives_by_its_version_under_the_code_of_the_second(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, None)
    order = await create_order(runtime)
    await publish_second(database)
    deployed = second_runtime(database)
    edited = await edit_order(deployed, order.id, total=7)
    assert (edited.contract_version, edited.data["total"]) == (1, 7)
    await deployed.org(ORG, MAX).entities.transition(order.id, "cancel")
    assert (await entity_row(deployed, order.id))["state"] == "cancelled"
    with pytest.raises(Refused, match="not a field"):
        await create_order(deployed)


async def test_new_documents_begin_with_the_newest_version_under_the_code_of_the_first(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, None)
    await create_order(runtime)
    await publish_second(database)
    command = Command(ORG, "order.create", ANN, {"number": "2", "due": "2030-01-01"})
    order = (await runtime.core.kernel.mutate(command)).entity
    assert order.contract_version == 2
    with pytest.raises(Refused) as refused:
        await edit_order(runtime, order.id, number="3")
    assert refused.value.code == "POLICY_DENIED", "only managers edit by version 2"


async def test_instance_begins_with_the_version_of_its_document(runtime: Runtime, database: Database) -> None:
    await publish_orders(database, None)
    order = await create_order(runtime)
    await publish_second(database)
    await drain(second_runtime(database))
    assert await versions(database) == {order.id: 1}


async def test_next_instance_of_a_document_begins_with_its_version(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, None)
    order = await create_order(runtime)
    await drain(runtime)
    (first,) = await rows(database, "workflow_instances")
    await runtime.org(ORG, actor("max", "*")).instances.cancel(first["id"], "again")
    await publish_second(database)
    deployed = second_runtime(database)
    await deployed.org(ORG, ANN).entities.transition(order.id, "submit")
    bound = {row["definition_id"] for row in await rows(database, "workflow_instances")}
    assert bound == {first["definition_id"]}
    assert (await entity_row(deployed, order.id))["contract_version"] == 1


async def test_org_with_a_patch_of_the_first_version_goes_on_creating_by_it(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, ORDER_PATCH)
    await publish_second(database)
    order = await create_order(runtime)
    await drain(runtime)
    assert (order.contract_version, await versions(database)) == (1, {order.id: 1})


async def test_documents_of_two_versions_in_one_batch_each_go_by_their_own(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, None)
    first = await create_order(runtime)
    await publish_second(database)
    second = await runtime.core.kernel.mutate(
        Command(ORG, "order.create", ANN, {"number": "2", "due": "2030-01-01"})
    )
    commands = [
        Command(ORG, "order.update", ANN, {"total": 9}, first.id),
        Command(ORG, "order.update", ANN, {"number": "9"}, second.entity.id),
    ]
    done, denied = await runtime.core.kernel.mutate_many(commands)
    assert isinstance(done, Mutation)
    assert done.entity.data["total"] == 9
    assert isinstance(denied, Rejection)
    assert denied.code == "POLICY_DENIED"


async def test_amendment_is_a_new_document_of_the_newest_version(
    runtime: Runtime, database: Database
) -> None:
    await publish_orders(database, None)
    order = await create_order(runtime)
    await runtime.org(ORG, MAX).entities.transition(order.id, "cancel")
    await publish_second(database)
    amend = Command(ORG, "order.amend", actor("ann", "order:amend"), {"due": "2030-01-01"}, order.id)
    amendment = (await runtime.core.kernel.mutate(amend)).entity
    assert (amendment.contract_version, amendment.amended_from_id) == (2, order.id)
    assert amendment.data == {"number": "1", "due": "2030-01-01"}


async def test_database_keeps_a_document_under_its_version(runtime: Runtime, database: Database) -> None:
    await publish_orders(database, None)
    order = await create_order(runtime)
    await publish_second(database)
    move = "UPDATE assent.entities SET version = version + 1, contract_version = 2 WHERE id = $1"
    async with database.transaction(None) as connection:
        await connection.execute("SELECT set_config('assent.door', 'mutate', true)")
        with pytest.raises(asyncpg.PostgresError, match="lives by version 1 of its contract") as refused:
            await _execute(connection, move, order.id)
    assert refused.value.sqlstate == "AS006"


async def _execute(connection: Connection, statement: str, entity_id: UUID) -> None:
    """Execute a statement that may fail, in a savepoint."""
    async with connection.transaction():
        await connection.execute(statement, entity_id)
