"""Two at once on one entity, in both orders: staged with real locks on real connections, never with luck."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assent.kernel import Kernel, Outcome
from assent.model.actor import SYSTEM
from assent.model.mutation import Command, Mutation
from assent.store.database import Connection, Database
from tests.kernel.commands import command, create_expense, start_instance
from tests.plain_sql import wait_until_blocked
from tests.world import ANN, MAX, create, rows

Work = Callable[[Connection], Awaitable[Any]]


def mutate(kernel: Kernel, asked: Command) -> Work:
    async def work(connection: Connection) -> Outcome:
        (outcome,) = await kernel.mutate_in(connection, [asked])
        return outcome

    return work


async def first_then_second(database: Database, first: Work, second: Work) -> tuple[Any, Any]:
    """`first` does its work and holds its locks; `second` provably waits for them; then `first` commits."""

    async def run_second(waiter: asyncio.Future[Connection]) -> Any:
        async with database.transaction("acme") as connection:
            waiter.set_result(connection)
            return await second(connection)

    async with database.transaction(None) as observer:
        async with database.transaction("acme") as connection:
            done = await first(connection)
            waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(run_second(waiter))
            await wait_until_blocked(observer, await waiter)
        return done, await task


def verdict(outcome: Outcome) -> str:
    return "done" if isinstance(outcome, Mutation) else outcome.code


@pytest.mark.parametrize("totals", [(1, 2), (2, 1)])
async def test_of_two_concurrent_edits_one_wins_and_the_other_gets_a_conflict(
    kernel: Kernel, database: Database, totals: tuple[int, int]
) -> None:
    entity = await create_expense(kernel)
    first, second = (
        mutate(kernel, command("expense.update", entity=entity, expected_version=1, payload={"total": total}))
        for total in totals
    )
    outcomes = await first_then_second(database, first, second)
    assert [verdict(outcome) for outcome in outcomes] == ["done", "VERSION_CONFLICT"]
    assert [row["data"]["total"] for row in await rows(database, "entity_versions")] == [1000, totals[0]]


async def test_without_an_expected_version_the_second_edit_builds_on_the_first(
    kernel: Kernel, database: Database
) -> None:
    entity = await create_expense(kernel)
    first = mutate(kernel, command("expense.update", entity=entity, payload={"total": 1}))
    second = mutate(kernel, command("expense.update", entity=entity, payload={"note": "late"}))
    _, outcome = await first_then_second(database, first, second)
    assert (outcome.entity.version, outcome.entity.data) == (3, {"title": "Taxi", "total": 1, "note": "late"})


async def test_an_edit_that_waited_for_a_locking_transition_is_refused(
    kernel: Kernel, database: Database
) -> None:
    entity = await create_expense(kernel)
    edit = mutate(kernel, command("expense.update", ANN, entity, payload={"total": 1}))
    post = mutate(kernel, command("expense.post", MAX, entity))
    outcomes = await first_then_second(database, post, edit)
    assert [verdict(outcome) for outcome in outcomes] == ["done", "WORKFLOW_EDIT_LOCKED"]


async def test_a_locking_transition_that_waited_for_an_edit_locks_what_was_edited(
    kernel: Kernel, database: Database
) -> None:
    entity = await create_expense(kernel)
    edit = mutate(kernel, command("expense.update", ANN, entity, payload={"total": 1}))
    post = mutate(kernel, command("expense.post", MAX, entity))
    _, posted = await first_then_second(database, edit, post)
    assert (posted.entity.version, posted.entity.data["total"], posted.entity.edit_window) == (3, 1, "locked")


def gate_that_locks(kernel: Kernel, entity: Any) -> Work:
    """What a gate of the engine does: its own write through mutate, then the window of its new place."""

    async def work(connection: Connection) -> Outcome:
        (outcome,) = await kernel.mutate_in(
            connection, [command("order.submit", SYSTEM, entity, by_instance=entity.instance_id)]
        )
        window = {"org_id": "acme", "entity_id": entity.id, "instance_id": entity.instance_id}
        await connection.execute(
            "SELECT assent.set_edit_windows($1)", [{**window, "edit_window": "locked", "ended": False}]
        )
        return outcome

    return work


async def test_an_edit_that_waited_for_a_gate_finds_the_gates_window(
    kernel: Kernel, database: Database
) -> None:
    entity = await create(kernel, "order", {"number": "1"})
    await start_instance(database, entity.id, entity.instance_id, window="editable")
    edit = mutate(kernel, command("order.update", entity=entity, payload={"total": 1}))
    outcomes = await first_then_second(database, gate_that_locks(kernel, entity), edit)
    assert [verdict(outcome) for outcome in outcomes] == ["done", "WORKFLOW_EDIT_LOCKED"]


async def test_a_gate_that_waited_for_an_edit_passes_with_the_edited_version(
    kernel: Kernel, database: Database
) -> None:
    entity = await create(kernel, "order", {"number": "1"})
    await start_instance(database, entity.id, entity.instance_id, window="editable")
    edit = mutate(kernel, command("order.update", entity=entity, payload={"total": 1}))
    _, gate = await first_then_second(database, edit, gate_that_locks(kernel, entity))
    assert (gate.entity.version, gate.entity.state, gate.entity.data["total"]) == (3, "submitted", 1)
    (head,) = await rows(database, "entities")
    assert (head["edit_window"], head["version"]) == ("locked", 3)


async def test_two_creations_of_one_id_give_one_entity_and_one_refusal(
    kernel: Kernel, database: Database
) -> None:
    entity = await create_expense(kernel)
    asked = command("expense.create", payload={"title": "x", "total": 1}, entity_id=entity.version_id)
    attempts = 0

    async def second(connection: Connection) -> Outcome:
        nonlocal attempts
        attempts += 1
        (outcome,) = await kernel.mutate_in(connection, [asked])
        return outcome

    async def run_second(waiter: asyncio.Future[Connection]) -> Outcome:
        async def work(connection: Connection) -> Outcome:
            if not waiter.done():
                waiter.set_result(connection)
            return await second(connection)

        return await database.run(work, org_id="acme")

    async with database.transaction(None) as observer:
        async with database.transaction("acme") as connection:
            await kernel.mutate_in(connection, [asked])
            waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(run_second(waiter))
            await wait_until_blocked(observer, await waiter)
        assert (verdict(await task), attempts) == ("ALREADY_EXISTS", 2)


async def test_opposite_orders_in_two_sets_do_not_deadlock(kernel: Kernel, database: Database) -> None:
    entities = [await create_expense(kernel) for _ in range(20)]

    async def edit_all(order: list[Any], total: int) -> list[Outcome]:
        asked = [command("expense.update", entity=entity, payload={"total": total}) for entity in order]
        return await kernel.database.run(
            lambda connection: kernel.mutate_in(connection, asked), org_id="acme", attempts_max=1
        )

    for round_number in range(5):
        results = await asyncio.gather(
            edit_all(entities, 2 * round_number), edit_all(entities[::-1], 2 * round_number + 1)
        )
        assert all(isinstance(outcome, Mutation) for outcomes in results for outcome in outcomes)
