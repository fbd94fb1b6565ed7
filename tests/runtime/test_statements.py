"""What a command costs: the exact number of its statements, BEGIN and COMMIT included, so that a new one is noticed."""

from collections.abc import Awaitable
from typing import Any

from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END, arrows, form, script
from tests.statements import StatementCounter
from tests.world import (
    ANN,
    BEA,
    FIN,
    LARGE,
    ORG,
    create_invoice,
    create_order,
    entity_row,
    found_acme_with_invoices,
    order_patch_of,
    publish_orders,
    publish_steps,
    request_id,
    submit_invoice,
)


async def cost(counter: StatementCounter, command: Awaitable[Any]) -> list[str]:
    """The names of a command's statements."""
    counter.clear()
    await command
    return counter.names


async def costs_of_an_invoice(runtime: Runtime, counter: StatementCounter) -> dict[str, list[str]]:
    entity = await create_invoice(runtime, LARGE)
    found = {"create": await cost(counter, create_invoice(runtime, LARGE))}
    edited = runtime.core.kernel.mutate(Command(ORG, "invoice.update", ANN, {"number": "2"}, entity.id))
    found["edit"] = await cost(counter, edited)
    found["submit"] = await cost(counter, runtime.org(ORG, ANN).entities.transition(entity.id, "submit"))
    view = await submit_invoice(runtime)
    for step, who in (("finance", FIN), ("budget", BEA)):
        decided = runtime.org(ORG, who).approvals.decide(request_id(view, step), "approved")
        found[step] = await cost(counter, decided)
    return found


async def test_an_invoice_costs_exactly_so_many_statements(
    runtime: Runtime, database: Database, statement_counter: StatementCounter
) -> None:
    await found_acme_with_invoices(database)
    await costs_of_an_invoice(runtime, statement_counter)  # from now on types and definitions are known
    found = await costs_of_an_invoice(runtime, statement_counter)
    counted = {command: len(names) for command, names in found.items()}
    assert counted == {"create": 5, "edit": 6, "submit": 20, "finance": 9, "budget": 16}, "\n".join(
        f"{k}: {v}" for k, v in found.items()
    )


async def test_a_flow_costs_exactly_so_many_statements(
    runtime: Runtime, database: Database, statement_counter: StatementCounter
) -> None:
    await publish_steps(
        database,
        "asking",
        [form("ask"), form("again"), END],
        [*arrows("ask", "again", event="done"), *arrows("again", "end", event="done")],
    )
    for _ in range(2):  # the second time types and definitions are known
        view = await runtime.org(ORG, ANN).instances.start("asking")
        found = {
            "start": await cost(statement_counter, runtime.org(ORG, ANN).instances.start("asking")),
            "advance": await cost(
                statement_counter, runtime.org(ORG, ANN).instances.advance(view.id, "done")
            ),
            "end": await cost(statement_counter, runtime.org(ORG, ANN).instances.advance(view.id, "done")),
        }
    counted = {command: len(names) for command, names in found.items()}
    assert counted == {"start": 10, "advance": 12, "end": 11}, "\n".join(
        f"{k}: {v}" for k, v in found.items()
    )


async def test_steps_that_only_compute_cost_no_statement_of_their_own(
    runtime: Runtime, database: Database, statement_counter: StatementCounter
) -> None:
    counted = []
    for number in (1, 10):
        names = [f"s{place}" for place in range(number)]
        steps = [*(script(name) for name in names), END]
        await publish_steps(database, f"counting_{number}", steps, arrows(*names, "end"))
        for _ in range(2):  # the second time types and definitions are known
            found = await cost(statement_counter, runtime.org(ORG, ANN).instances.start(f"counting_{number}"))
        counted.append(found)
    assert counted[0] == counted[1]


async def test_what_an_operation_writes_by_itself_is_seen_by_the_gate_after_it(
    runtime: Runtime, database: Database
) -> None:
    """What a transaction holds is not read again, unless somebody else's code had the connection."""

    async def note(connection: Any, arguments: Any) -> None:
        row = await entity_row(runtime, arguments["id"])
        given = Command(ORG, "order.update", ANN, {"total": 7}, row["id"], by_instance=row["instance_id"])
        await runtime.core.kernel.mutate_in(connection, [given])

    runtime.core.advancing.operations["tests.note"] = note
    seen = {"type": "system", "operation": {"sdk": "tests.note"}, "input": {"id": "entity.id"}}
    await publish_orders(database, order_patch_of(seen))
    entity = await create_order(runtime)
    view = await runtime.org(ORG, ANN).entities.transition(entity.id, "submit")
    found = await entity_row(runtime, entity.id)
    assert (view.status, found["state"], found["data"]["total"]) == ("completed", "active", 7)
