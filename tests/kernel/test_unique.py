"""Unique fields: per org and entity type, decided by the database, whoever comes first and however they come."""

import asyncio
from typing import Any

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.model.actor import SYSTEM
from assent.model.contract import parse_contract
from assent.model.mutation import Command, Entity, Mutation, Refused, Rejection
from assent.model.problems import format_path
from assent.store.database import Connection, Database
from tests.kernel.commands import command
from tests.plain_sql import wait_until_blocked
from tests.world import rows

LIFECYCLE = {
    "initial": "open",
    "states": {"open": {"edit": "editable"}, "done": {"edit": "locked"}},
    "transitions": {"close": {"from": "open", "to": "done"}},
}
BILL: dict[str, Any] = {
    "contract": "bill",
    "version": 1,
    "workflow": "none",
    "fields": {
        "number": {"type": "text", "unique": True},
        "serial": {"type": "integer", "unique": True},
        "note": {"type": "text"},
    },
    "lifecycle": LIFECYCLE,
}


@pytest.fixture
def app() -> App:
    return App([BILL, {**BILL, "contract": "offer"}])


def creating(**payload: Any) -> Command:
    return command("bill.create", SYSTEM, payload=payload)


async def create(kernel: Kernel, **payload: Any) -> Entity:
    return (await kernel.mutate(creating(**payload))).entity


async def rejection_of(kernel: Kernel, asked: Command) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        await kernel.mutate(asked)
    return caught.value.code, format_path(caught.value.rejection.path)


async def test_second_entity_with_the_same_value_is_refused(kernel: Kernel, database: Database) -> None:
    await create(kernel, number="A-1", serial=1)
    assert await rejection_of(kernel, creating(number="A-1")) == ("NOT_UNIQUE", "payload.number")
    assert await rejection_of(kernel, creating(serial=1)) == ("NOT_UNIQUE", "payload.serial")
    assert len(await rows(database, "entities")) == 1
    assert len(await rows(database, "audit_log")) == 1


async def test_other_orgs_and_types_and_missing_values_are_free(kernel: Kernel) -> None:
    await create(kernel, number="A-1")
    await kernel.mutate(command("offer.create", SYSTEM, payload={"number": "A-1"}))
    await kernel.mutate(command("bill.create", SYSTEM, payload={"number": "A-1"}, org_id="beta"))
    await create(kernel, number="a-1")
    await create(kernel)
    await create(kernel, number=None)


async def test_an_edit_takes_a_value_and_gives_the_old_one_back(kernel: Kernel) -> None:
    first, second = await create(kernel, number="A-1"), await create(kernel, number="A-2")
    taking = command("bill.update", SYSTEM, second, payload={"number": "A-1"})
    assert await rejection_of(kernel, taking) == ("NOT_UNIQUE", "payload.number")
    await kernel.mutate(command("bill.update", SYSTEM, first, payload={"note": "n"}))
    await kernel.mutate(command("bill.update", SYSTEM, first, payload={"number": "A-3"}))
    await kernel.mutate(taking)
    await kernel.mutate(command("bill.update", SYSTEM, first, payload={"number": None}))
    await create(kernel, number="A-3")


async def test_of_many_commands_only_the_repeated_one_is_rejected(kernel: Kernel, database: Database) -> None:
    await create(kernel, number="A-1")
    numbers = ("A-2", "A-1", "A-3", "A-3", "A-4")
    outcomes = await kernel.mutate_many([creating(number=number) for number in numbers])
    found = [outcome.code if isinstance(outcome, Rejection) else "done" for outcome in outcomes]
    assert found == ["done", "NOT_UNIQUE", "done", "NOT_UNIQUE", "done"]
    kept = sorted(row["data"]["number"] for row in await rows(database, "entity_versions"))
    assert kept == ["A-1", "A-2", "A-3", "A-4"]


async def test_commands_that_come_together_share_no_rejection(kernel: Kernel, database: Database) -> None:
    numbers = ["A-1", "A-2"] * 10
    outcomes = await asyncio.gather(
        *(kernel.mutate(creating(number=number)) for number in numbers), return_exceptions=True
    )
    assert sum(isinstance(outcome, Mutation) for outcome in outcomes) == 2
    assert {outcome.code for outcome in outcomes if isinstance(outcome, Refused)} == {"NOT_UNIQUE"}
    assert len(await rows(database, "entities")) == 2


@pytest.mark.parametrize("commits", [True, False], ids=["first commits", "first rolls back"])
async def test_second_of_two_transactions_waits_for_the_first(
    kernel: Kernel, database: Database, commits: bool
) -> None:
    async def second(waiter: "asyncio.Future[Connection]") -> Any:
        async with database.transaction("acme") as connection:
            waiter.set_result(connection)
            (outcome,) = await kernel.mutate_in(connection, [creating(number="A-1")])
            # The caller's transaction goes on after a rejection.
            assert await connection.fetchval("SELECT 1") == 1
            return outcome

    async with database.transaction(None) as observer:
        task = None
        try:
            async with database.transaction("acme") as connection:
                await kernel.mutate_in(connection, [creating(number="A-1")])
                waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
                task = asyncio.create_task(second(waiter))
                await wait_until_blocked(observer, await waiter)
                if not commits:
                    raise LookupError
        except LookupError:
            pass
        assert task is not None
        outcome = await task
    assert isinstance(outcome, Rejection if commits else Mutation)
    assert len(await rows(database, "entities")) == 1


async def test_an_amendment_takes_the_value_of_its_original(kernel: Kernel) -> None:
    first = await create(kernel, number="A-1")
    closed = (await kernel.mutate(command("bill.close", SYSTEM, first))).entity
    await kernel.mutate(command("bill.amend", SYSTEM, closed, payload={"note": "corrected"}))
    assert await rejection_of(kernel, creating(number="A-1")) == ("NOT_UNIQUE", "payload.number")


async def test_a_long_value_is_unique_too(kernel: Kernel) -> None:
    await create(kernel, number="x" * 100_000)
    assert await rejection_of(kernel, creating(number="x" * 100_000)) == ("NOT_UNIQUE", "payload.number")
    await create(kernel, number="x" * 99_999)


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"type": "list", "of": {"type": "text"}, "unique": True}, ("fields", "x", "unique")),
        ({"type": "boolean", "unique": True}, ("fields", "x", "unique")),
        ({"type": "list", "of": {"type": "text", "unique": True}}, ("fields", "x", "of", "unique")),
    ],
)
def test_what_cannot_be_unique_is_a_problem_of_the_contract(field: dict[str, Any], path: Any) -> None:
    _, problems = parse_contract({**BILL, "fields": {"x": field}})
    assert [(problem.code, problem.path) for problem in problems] == [("MISPLACED_KEY", path)]
