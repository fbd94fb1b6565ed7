"""Work in sets: round trips do not depend on how many entities there are."""

from collections.abc import Sequence
from typing import Any

import pytest

from assent.kernel import Kernel
from assent.kernel.rules import save_rule
from assent.model.mutation import Command, Entity, Mutation
from assent.store.database import Database
from tests.kernel.commands import command
from tests.kernel.test_rules import rule
from tests.statements import StatementCounter

NEW: dict[str, dict[str, Any]] = {"expense": {"title": "x", "total": 1}, "order": {"number": "1"}}


async def run_counted(kernel: Kernel, commands: Sequence[Command]) -> tuple[list[str], list[Entity]]:
    counter = StatementCounter()
    with kernel.database.observe(counter):
        outcomes = await kernel.mutate_many(commands)
    assert all(isinstance(outcome, Mutation) and outcome.changed for outcome in outcomes)
    return counter.names, [outcome.entity for outcome in outcomes if isinstance(outcome, Mutation)]


async def statements_for(kernel: Kernel, entity_type: str, count: int) -> tuple[list[str], list[str]]:
    """What it takes to create and then to edit `count` entities."""
    creations = [command(f"{entity_type}.create", payload=NEW[entity_type]) for _ in range(count)]
    created, entities = await run_counted(kernel, creations)
    edits = [command(f"{entity_type}.update", entity=entity, payload={"total": 5}) for entity in entities]
    edited, _ = await run_counted(kernel, edits)
    return created, edited


@pytest.mark.parametrize("entity_type", ["expense", "order"])
async def test_500_entities_take_as_many_statements_as_5(
    kernel: Kernel, database: Database, entity_type: str
) -> None:
    """Expenses have a rule that leaves evidence, orders have a workflow that is told."""
    async with database.transaction("acme") as connection:
        asked = rule(condition="entity.total > 1", outcome="set", then={"note": "'n'"})
        await save_rule(connection, kernel.registry, "acme", asked, database.clock.now())
    # A connection looks the types of its parameters up once.
    await statements_for(kernel, entity_type, 1)
    few, many = [await statements_for(kernel, entity_type, count) for count in (5, 500)]
    assert few == many
    assert [len(statements) for statements in few] == (
        # BEGIN and enter the org, load rules, write, COMMIT; an edit locks first.
        [4, 6] if entity_type == "expense" else [5, 6]
    )
