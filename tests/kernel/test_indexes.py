"""Indexes that a new version of a contract declares: built for documents of every version, and not used before."""

import asyncio
from typing import Any

import pytest

from assent.app import App
from assent.kernel import Kernel
from assent.kernel.entities import LockedRows
from assent.kernel.indexes import build_indexes, read_indexes
from assent.kernel.registry import PublishedContracts
from assent.model.actor import SYSTEM
from assent.model.entity_filter import EntityFilter
from assent.model.mutation import Mutation, Refused
from assent.runtime import Runtime
from assent.store.database import Database
from tests.kernel.bills import BILL, all_of, build, column, create_bill, listed, publish_bill
from tests.kernel.commands import command
from tests.world import ANN, ORG, fetch, rows

PLAIN: dict[str, Any] = {
    name: {key: value for key, value in spec.items() if key not in ("index", "search")}
    for name, spec in BILL["fields"].items()
}
"""The fields as the first version has them: nothing is indexed."""
DEAR = EntityFilter(where=("total >= 100",))


@pytest.fixture
def app() -> App:
    return App([{**BILL, "version": 2}])


async def publish_first(database: Database, **fields: Any) -> None:
    await publish_bill(database, fields={**PLAIN, **fields})


async def publish_second(database: Database, **changes: Any) -> None:
    await publish_bill(database, **{"version": 2, **changes})


async def code_of(runtime: Runtime, wanted: EntityFilter = DEAR) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        await runtime.org(ORG, ANN).entities.list("bill", wanted)
    (problem,) = caught.value.rejection.problems
    return problem.code, problem.message


async def test_documents_from_before_are_found_when_the_index_is_built_and_refused_until_then(
    runtime: Runtime, database: Database
) -> None:
    await publish_first(database)
    for total in (50, 100, 150):
        await create_bill(runtime, total=total, note=f"rent {total}")
    await create_bill(runtime, "beta", total=200)
    assert (await code_of(runtime))[0] == "NOT_INDEXED"

    await publish_second(database)
    assert await code_of(runtime) == ("INDEX_BUILDING", "the index of `total` is being built: 0% is done")
    assert (await code_of(runtime, EntityFilter(q="rent")))[0] == "INDEX_BUILDING"
    assert await build(database, entities_max=2) == 4
    assert sorted(column(await all_of(runtime, DEAR), "total")) == [100, 150]
    assert column(await listed(runtime, q="rent 50"), "total") == [50]
    assert column(await listed(runtime, "beta", where=["total > 0"]), "total") == [200]


async def test_progress_of_a_build_is_shown(runtime: Runtime, database: Database) -> None:
    await publish_first(database)
    for total in range(4):
        await create_bill(runtime, total=total)
    await publish_second(database)
    twins = len(await fetch(database, "SELECT FROM assent.entities WHERE org_id < 'acme'"))
    while (await _progress(database)) == 0.0:
        await build_indexes(database, twins + 2)
    assert await _progress(database) == 0.5
    acme = runtime.org(ORG, ANN).entities
    assert {(each.ready, each.progress) for each in await acme.indexes("bill")} == {(False, 0.5)}
    await build(database)
    assert {(each.ready, each.progress) for each in await acme.indexes("bill")} == {(True, 1.0)}


async def _progress(database: Database) -> float:
    async with database.transaction(None) as connection:
        return (await read_indexes(connection, "bill")).progress


async def test_first_contract_of_a_type_has_its_indexes_at_once(runtime: Runtime, database: Database) -> None:
    await publish_second(database)
    await create_bill(runtime, total=100)
    assert column(await all_of(runtime, DEAR), "total") == [100]


async def test_transaction_that_began_before_the_declaration_is_waited_for(
    runtime: Runtime, kernel: Kernel, database: Database
) -> None:
    await publish_first(database)
    await create_bill(runtime, total=100)
    async with database.transaction(ORG) as connection:
        (outcome,) = await kernel.mutate_in(
            connection, [command("bill.create", SYSTEM, payload={"total": 200})]
        )
        assert isinstance(outcome, Mutation)
        await publish_second(database)
        for _ in range(5):
            assert (await build_indexes(database, 100)).indexed == 0
        assert (await code_of(runtime))[0] == "INDEX_BUILDING"
    await build(database)
    assert sorted(column(await all_of(runtime, DEAR), "total")) == [100, 200]


async def test_writer_that_has_not_read_the_new_declaration_tries_again(
    runtime: Runtime, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish_first(database)
    await create_bill(runtime, total=1)
    load, loads = PublishedContracts.load, []

    async def publish_before_it_writes(contracts: PublishedContracts, *args: Any) -> None:
        # The command has read the declaration by now, and has written nothing.
        loads.append(args)
        if len(loads) == 1:
            await publish_second(database)
        await load(contracts, *args)

    monkeypatch.setattr(PublishedContracts, "load", publish_before_it_writes)
    await create_bill(runtime, total=300)
    assert len(loads) == 2
    await build(database)
    assert column(await all_of(runtime, DEAR), "total") == [300]


async def test_write_by_an_old_declaration_is_refused_as_lost_against_another(
    kernel: Kernel, runtime: Runtime, database: Database
) -> None:
    await publish_first(database)
    await create_bill(runtime, total=1)
    held = LockedRows()
    async with database.transaction(ORG) as connection:
        await kernel.mutate_in(connection, [command("bill.create", SYSTEM, payload={"total": 2})], held)
    await publish_second(database)
    with pytest.raises(Exception, match="indexes of an entity type have changed"):
        async with database.transaction(ORG) as connection:
            await kernel.mutate_in(connection, [command("bill.create", SYSTEM, payload={"total": 3})], held)


async def test_document_is_changed_while_the_index_is_built(runtime: Runtime, database: Database) -> None:
    await publish_first(database)
    bills = [await create_bill(runtime, total=number) for number in range(6)]
    await publish_second(database)
    acme = runtime.org(ORG, SYSTEM).entities
    for number, bill in enumerate(bills):
        await build_indexes(database, 1)
        await acme.mutate("bill.update", {"total": 1000 + number}, bill.id)
    await build(database, entities_max=2)
    assert sorted(column(await all_of(runtime, DEAR), "total")) == list(range(1000, 1006))
    assert await listed(runtime, where=["total < 100"]) == []


async def test_two_workers_build_one_index_once(runtime: Runtime, database: Database) -> None:
    await publish_first(database)
    for number in range(9):
        await create_bill(runtime, total=100 + number)
    await publish_second(database)
    found = await asyncio.gather(build(database, 2), build(database, 3))
    assert sum(found) == 9
    assert len(await all_of(runtime, DEAR)) == 9


async def test_index_that_is_declared_no_more_is_deleted(runtime: Runtime, database: Database) -> None:
    await publish_second(database)
    await create_bill(runtime, total=100, number="A", note="rent")
    fields = {**PLAIN, "number": BILL["fields"]["number"]}
    await publish_bill(database, version=3, fields=fields)
    # What stays is usable all the while.
    assert column(await listed(runtime, where=["number = A"]), "total") == [100]
    assert (await code_of(runtime))[0] == "NOT_INDEXED"
    await build(database)
    kept = {(row["field"], row["value"]) for row in await rows(database, "indexed_values")}
    assert kept == {("number", "a\x01A"), ("*", "a")}


async def test_older_contract_that_is_published_later_takes_no_index_away(
    runtime: Runtime, database: Database
) -> None:
    await publish_second(database)
    await create_bill(runtime, total=100)
    await publish_first(database)
    assert column(await all_of(runtime, DEAR), "total") == [100]


async def test_value_of_an_older_document_that_has_another_type_is_none(
    runtime: Runtime, database: Database
) -> None:
    await publish_first(database, total={"type": "text"})
    writing = App([{**BILL, "fields": {**PLAIN, "total": {"type": "text"}}}]).runtime(database)
    await create_bill(writing, total="much")
    await publish_second(database)
    await create_bill(runtime, total=100)
    await build(database)
    assert column(await listed(runtime, sort="total"), "total") == ["much", 100]
    assert column(await all_of(runtime, DEAR), "total") == [100]
