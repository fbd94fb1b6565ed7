"""Commands that come together go through one transaction, and each is answered as if it had come alone."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import pytest

from assent.model.ids import new_id
from assent.runtime import InstanceView, Runtime
from assent.store.database import Database
from assent.store.group_commit import LANES
from tests.authored import END, arrows, call, form
from tests.statements import StatementCounter
from tests.world import (
    ANN,
    BEA,
    FIN,
    LARGE,
    ORG,
    create_invoice,
    found_acme_with_invoices,
    publish_steps,
    request_id,
    submit_invoice,
)

COUNT = LANES + 5


def transactions(counter: StatementCounter) -> int:
    return sum(sql.startswith("COMMIT") for sql in counter.statements)


async def at_once(*commands: Coroutine[Any, Any, Any]) -> list[Any]:
    return list(await asyncio.gather(*commands, return_exceptions=True))


async def test_invoices_that_are_made_submitted_and_approved_at_once_share_transactions(
    runtime: Runtime, database: Database, statement_counter: StatementCounter
) -> None:
    await found_acme_with_invoices(database)
    await submit_invoice(runtime)
    statement_counter.clear()
    entities = await asyncio.gather(*(create_invoice(runtime, LARGE) for _ in range(COUNT)))
    assert len({entity.id for entity in entities}) == COUNT
    views = await asyncio.gather(
        *(runtime.org(ORG, ANN).entities.transition(entity.id, "submit") for entity in entities)
    )
    assert [view.entity_id for view in views] == [entity.id for entity in entities]
    for step, who in (("finance", FIN), ("budget", BEA)):
        decisions = (
            runtime.org(ORG, who).approvals.decide(request_id(view, step), "approved") for view in views
        )
        decided = await asyncio.gather(*decisions)
        assert [view.id for view in decided] == [view.id for view in views]
    assert {view.status for view in decided} == {"completed"}
    assert transactions(statement_counter) == 4 * (LANES + 1)


async def test_each_command_is_answered_by_itself(runtime: Runtime, database: Database) -> None:
    await found_acme_with_invoices(database)
    views = [await submit_invoice(runtime) for _ in range(LANES + 2)]
    asked = [
        runtime.org(ORG, FIN).approvals.decide(request_id(view, "finance"), "approved") for view in views
    ]
    nobody = runtime.org(ORG, FIN).approvals.decide(new_id(database.clock.now()), "approved")
    other = runtime.org(ORG, FIN).approvals.decide(request_id(views[0], "budget"), "approved")
    *found, unknown, stranger = await at_once(*asked, nobody, other)
    assert [view.id for view in found] == [view.id for view in views]
    assert [refused.code for refused in (unknown, stranger)] == ["NOT_FOUND", "POLICY_DENIED"]


async def test_two_commands_for_one_instance_are_one_after_the_other(
    runtime: Runtime, database: Database
) -> None:
    await found_acme_with_invoices(database)
    others = [await submit_invoice(runtime) for _ in range(LANES)]
    view = await submit_invoice(runtime)
    first = [
        runtime.org(ORG, FIN).approvals.decide(request_id(other, "finance"), "approved") for other in others
    ]
    both = [
        runtime.org(ORG, who).approvals.decide(request_id(view, step), "approved")
        for step, who in (("finance", FIN), ("budget", BEA))
    ]
    *_, one, two = await at_once(*first, *both)
    assert sorted([one.status, two.status]) == ["completed", "running"]


async def flows(runtime: Runtime, count: int) -> list[InstanceView]:
    return [await runtime.org(ORG, ANN).instances.start("calling") for _ in range(count)]


@pytest.fixture
async def calls(runtime: Runtime, database: Database) -> list[UUID]:
    """A flow that calls a function, which fails for those that say so."""
    called: list[UUID] = []

    def function(_: Any, arguments: Any) -> None:
        called.append(arguments["id"])
        if arguments["fails"]:
            raise ValueError("no")

    runtime.core.advancing.operations["tests.call"] = function
    given = {"id": "workflow.id", "fails": "workflow.fails"}
    steps = [form("ask"), call("do", "tests.call", input=given), END]
    await publish_steps(
        database, "calling", steps, [*arrows("ask", "do", event="done"), *arrows("do", "end")]
    )
    return called


def answer(runtime: Runtime, view: InstanceView, *, fails: bool = False) -> Coroutine[Any, Any, InstanceView]:
    return runtime.org(ORG, ANN).instances.advance(view.id, "done", {"id": str(view.id), "fails": fails})


async def test_one_that_fails_fails_alone(runtime: Runtime, calls: list[UUID]) -> None:
    views = await flows(runtime, COUNT)
    found = await at_once(*(answer(runtime, view, fails=view is views[-2]) for view in views))
    assert [getattr(view, "status", None) for view in found] == [
        *["completed"] * (COUNT - 2),
        None,
        "completed",
    ]
    assert "ValueError" in repr(found[-2])


async def test_one_whose_instance_is_busy_keeps_nobody_waiting(
    runtime: Runtime, database: Database, calls: list[UUID]
) -> None:
    *free, busy = await flows(runtime, COUNT)
    async with database.transaction(None) as connection:
        lock = "SELECT pg_advisory_xact_lock(hashtextextended($1::uuid::text, 0))"
        await connection.execute(lock, busy.id)
        first, *others = free
        waiting = [asyncio.create_task(answer(runtime, busy))]
        found = await asyncio.gather(answer(runtime, first), *(answer(runtime, view) for view in others))
        assert {view.status for view in found} == {"completed"}
        assert not waiting[0].done()
    assert (await waiting[0]).status == "completed"
