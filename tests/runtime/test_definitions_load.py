"""Loading what runs: for one and for many, the org's own before everybody's, in as many statements for all."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from assent.definitions import EVERYBODY, Definition, DefinitionRef, Definitions, Pin
from assent.model.mutation import Refused, Rejection
from assent.store.database import Connection, Database
from tests.runtime.definitions import contract, flow, patch, tamper
from tests.statements import StatementCounter
from tests.world import publish


async def statements_of(database: Database, work: Callable[[Connection], Awaitable[object]]) -> list[str]:
    """The names of the statements that `work` takes; a new connection also asks for types, once."""
    counter = StatementCounter()
    with database.observe(counter):
        async with database.transaction(None) as connection:
            await work(connection)
    named = [statement.split()[1] for statement in counter.statements if statement.startswith("/* ")]
    return [name for name in named if name != "enter_as_owner"]


def names(definition: Definition) -> set[str]:
    return {node.name for node in definition.workflow.nodes.values()}


async def test_org_without_patches_starts_what_everybody_starts(database, definitions):
    published = await publish(database, contract())
    async with database.transaction("acme") as connection:
        found = await definitions.for_entity(connection, "acme", "invoice")
    assert (found.org_id, found.id) == (EVERYBODY, published.effective.id)
    assert found.hash == published.effective.compiled_hash


async def test_patch_of_one_org_is_not_started_by_another(database, definitions):
    await publish(database, contract())
    published = await publish(database, patch(), "acme")
    async with database.transaction("acme") as connection:
        own = await definitions.for_entity(connection, "acme", "invoice")
    async with database.transaction("globex") as connection:
        other = await definitions.for_entity(connection, "globex", "invoice")
    assert (own.id, other.org_id) == (published.effective.id, EVERYBODY)
    assert ("ask" in names(own), "ask" in names(other)) == (True, False)


@pytest.mark.parametrize("cached", [True, False])
async def test_definition_of_another_org_is_not_there(database, definitions, cached):
    published = (await publish(database, flow(), "acme")).source
    if cached:
        async with database.transaction(None) as connection:
            await definitions.for_flow(connection, "acme", "hello")
    pin = Pin("globex", published.id, published.version, published.compiled_hash)
    for org_id in (None, "globex"):
        async with database.transaction(org_id) as connection:
            found = (await definitions.by_id(connection, [pin]))[pin]
        assert isinstance(found, Rejection)
        assert found.code == "NOT_FOUND"


async def test_flow_of_an_org_goes_before_everybodys(database, definitions):
    await publish(database, flow(name="Everybody's"))
    await publish(database, flow(name="Acme's"), "acme")
    async with database.transaction(None) as connection:
        acme = await definitions.for_flow(connection, "acme", "hello")
        globex = await definitions.for_flow(connection, "globex", "hello")
    assert (acme.workflow.name, globex.workflow.name) == ("Acme's", "Everybody's")


async def test_org_that_took_over_an_id_of_everybodys_runs_its_own_and_the_others_theirs(
    database, definitions
):
    shared = (await publish(database, flow())).source
    own = (await publish(database, flow(key="own"), "acme")).source
    await tamper(database, own.id, id=shared.id)
    pins = [
        Pin("acme", shared.id, own.version, own.compiled_hash),
        Pin("globex", shared.id, shared.version, shared.compiled_hash),
    ]
    for _ in range(2):
        async with database.transaction(None) as connection:
            found = await definitions.by_id(connection, pins)
        assert [found[pin].workflow.key for pin in pins] == ["own", "hello"]


async def test_what_is_loaded_is_exactly_what_was_compiled(database, definitions):
    await publish(database, contract())
    published = await publish(database, patch(), "acme")
    async with database.transaction(None) as connection:
        row = await connection.fetchrow(
            "SELECT * FROM assent.workflow_definitions WHERE org_id <> 'aatwin' AND id = $1",
            published.effective.id,
        )
        found = await definitions.for_entity(connection, "acme", "invoice")
    assert found.workflow.to_json() == row["compiled_json"]
    assert list(found.workflow.edges) == sorted(found.workflow.edges)


@pytest.mark.parametrize("asked", ["for_entity", "for_flow"])
async def test_unknown_names_are_refused_with_what_to_do(database, definitions, asked):
    async with database.transaction("acme") as connection:
        with pytest.raises(Refused) as caught:
            await getattr(definitions, asked)(connection, "acme", "invoice")
    assert (caught.value.code, caught.value.rejection.hint) == (
        "NOT_FOUND",
        "publish one with `assent definitions publish`",
    )
    assert "`invoice`" in caught.value.rejection.message


async def test_a_new_version_starts_at_once_also_where_the_old_one_is_cached(database, definitions):
    await publish(database, flow())
    async with database.transaction("acme") as connection:
        before = await definitions.for_flow(connection, "acme", "hello")
    await publish(database, flow(version=2))
    async with database.transaction("acme") as connection:
        after = await definitions.for_flow(connection, "acme", "hello")
        pinned = (await definitions.by_id(connection, [before.pin("acme")]))[before.pin("acme")]
    assert (before.workflow.version, after.workflow.version) == (1, 2)
    assert pinned is before


async def publish_many(database, orgs):
    """A flow for everybody, and one of its own for each org; the pins of one instance of each."""
    shared = (await publish(database, flow())).source
    own = [(await publish(database, flow(key=f"own_{org_id}"), org_id)).source for org_id in orgs]
    pins = [Pin(org_id, shared.id, shared.version, shared.compiled_hash) for org_id in orgs]
    return pins + [Pin(found.org_id, found.id, found.version, found.compiled_hash) for found in own]


@pytest.mark.parametrize("count", [2, 12])
async def test_statements_do_not_grow_with_the_definitions_that_are_loaded(database, definitions, count):
    pins = await publish_many(database, [f"org_{number}" for number in range(count)])

    async def load(connection: Connection) -> None:
        found = await definitions.by_id(connection, pins)
        assert all(isinstance(definition, Definition) for definition in found.values())
        assert len({id(definition) for definition in found.values()}) == count + 1

    assert [await statements_of(database, load) for _ in range(2)] == [["load_definitions"], []]


@pytest.mark.parametrize("count", [2, 12])
async def test_statements_do_not_grow_with_the_orgs_that_start(database, definitions, count):
    orgs = [f"org_{number}" for number in range(count)]
    await publish_many(database, orgs)
    wanted = [
        DefinitionRef(org_id, "flow", key) for org_id in orgs for key in ("hello", f"own_{org_id}", "none")
    ]

    async def start(connection: Connection) -> None:
        found = await definitions.current(connection, wanted)
        assert [isinstance(found[want], Definition) for want in wanted] == [True, True, False] * count

    cold, warm = [await statements_of(database, start) for _ in range(2)]
    assert (cold, warm) == (["find_current", "load_definitions"], ["find_current"])


async def test_nothing_wanted_asks_nothing(database, definitions):
    assert await statements_of(database, lambda connection: definitions.by_id(connection, [])) == []
    assert await statements_of(database, lambda connection: definitions.current(connection, [])) == []


async def test_one_bad_definition_does_not_hold_the_others_back(database, definitions):
    good, bad = (await publish(database, flow())).source, (await publish(database, flow(key="bad"))).source
    await tamper(database, bad.id, compiled_hash="0" * 64)
    pins = [Pin("acme", found.id, found.version, found.compiled_hash) for found in (good, bad)]
    unknown = Pin("acme", uuid4(), 1, good.compiled_hash)
    async with database.transaction("acme") as connection:
        found = await definitions.by_id(connection, [*pins, unknown])
    assert isinstance(found[pins[0]], Definition)
    assert [found[pin].code for pin in (pins[1], unknown)] == ["WORKFLOW_HASH_MISMATCH", "NOT_FOUND"]


async def test_cache_forgets_what_was_not_used_for_longest(database, clock):
    definitions = Definitions(clock, definitions_max=2)
    pins = {}
    for key in ("a", "b", "c"):
        await publish(database, flow(key=key))
    async with database.transaction(None) as connection:
        for key in ("a", "b", "a", "c"):
            pins[key] = (await definitions.for_flow(connection, "acme", key)).pin("acme")
    kept = await statements_of(database, lambda found: definitions.by_id(found, [pins["a"], pins["c"]]))
    forgotten = await statements_of(database, lambda found: definitions.by_id(found, [pins["b"]]))
    assert (kept, forgotten) == ([], ["load_definitions"])


async def test_a_change_beneath_the_triggers_is_noticed_when_the_cache_asks_again(
    database, definitions, clock
):
    published = (await publish(database, flow())).source
    async with database.transaction("acme") as connection:
        pin = (await definitions.for_flow(connection, "acme", "hello")).pin("acme")
    await tamper(database, published.id, compiled_json={"nodes": []})
    async with database.transaction("acme") as connection:
        assert isinstance((await definitions.by_id(connection, [pin]))[pin], Definition)
        clock.advance(timedelta(seconds=301))
        assert (await definitions.by_id(connection, [pin]))[pin].code == "WORKFLOW_HASH_MISMATCH"
