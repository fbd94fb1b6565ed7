"""WF-16: a join fires once, however many arrive, at whatever moment and from however many processes."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from assent.model.ids import join_key
from assent.runtime import Runtime
from assent.runtime.errors import ReceiptTaken
from assent.store.database import Database
from tests.authored import END, arrows, call, form
from tests.processes.application import calls
from tests.processes.spawn import children, closed_gate, wait_until_blocked
from tests.rows import insert
from tests.runtime.spoiling import projection, put_back, reopen_forms
from tests.world import ANN, ORG, drain, publish_steps, rows, steps_of

NAMES = ("a", "b", "c", "d")


async def publish_joined(database: Database, mode: str, operation: str = "tests.mark") -> None:
    """Four forms side by side, and a call behind their join; every round of the loop joins anew."""
    steps = [
        {"id": "fork", "type": "parallel_split"},
        *[form(name) for name in NAMES],
        {"id": "join", "type": "parallel_join", "mode": mode},
        call("after", operation, input={"what": "'joined'"}),
        form("review"),
        END,
    ]
    transitions = [
        *[arrow for name in NAMES for arrow in arrows("fork", name)],
        *[arrow for name in NAMES for arrow in arrows(name, "join", event="done")],
        *arrows("join", "after", "review"),
        {"from": "review", "event": "again", "to": "fork"},
        *arrows("review", "end", event="fine"),
    ]
    await publish_steps(database, "joined", steps, transitions)


async def of_join(database: Database, instance_id: UUID, status: str = "completed") -> list[dict[str, Any]]:
    steps = await steps_of(database, instance_id)
    return [step for step in steps if step["node_id"] == "join" and step["status"] == status]


@pytest.mark.parametrize(("mode", "taken"), [("all", 4), ("any", 1)])
async def test_processes_that_arrive_together_fire_it_once(
    runtime: Runtime, database: Database, mode: str, taken: int
) -> None:
    """Twelve instances; for each, four processes answer the four branches at the same time."""
    await publish_joined(database, mode)
    ids = await runtime.org(ORG, ANN).instances.start_many("joined", [{}] * 12)
    await drain(runtime)
    async with children(database, 4) as people:
        for instance_id in ids:
            answers = await asyncio.gather(
                *(
                    person.ask("advance", instance=instance_id, event="done", step=name)
                    for person, name in zip(people, NAMES, strict=True)
                )
            )
            refused = [answer for answer in answers if answer == "INVALID_TRANSITION"]
            assert len(answers) - len(refused) == taken, answers
    assert await calls(database) == ["joined"] * 12
    for instance_id in ids:
        assert len(await of_join(database, instance_id)) == 1


async def test_arrival_while_the_join_fires_waits_and_finds_its_branch_cancelled(
    runtime: Runtime, database: Database
) -> None:
    """Staged: the winner is held in the middle of its transaction, behind the join."""
    await publish_joined(database, "any", "tests.gate")
    view = await runtime.org(ORG, ANN).instances.start("joined")
    async with children(database, 2) as (winner, loser):
        async with closed_gate(database) as observer:
            first = asyncio.create_task(winner.ask("advance", instance=view.id, event="done", step="c"))
            await wait_until_blocked(observer, 1)
            second = asyncio.create_task(loser.ask("advance", instance=view.id, event="done", step="a"))
            await wait_until_blocked(observer, 2)
        assert (await first)["waiting"] == ["review"]
        assert await second == "INVALID_TRANSITION"
    steps = await steps_of(database, view.id)
    assert sorted(s["node_id"] for s in steps if s["status"] == "cancelled") == ["a", "b", "d"]
    assert await calls(database) == ["joined"]


async def test_join_whose_receipt_is_taken_does_not_fire_again(runtime: Runtime, database: Database) -> None:
    """Somebody fired it already, says the receipt; the instance's row does not know."""
    await publish_joined(database, "any")
    view = await runtime.org(ORG, ANN).instances.start("joined")
    before = await projection(database, view.id)
    await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="a")
    await put_back(database, view.id, before)
    await reopen_forms(database, view.id)
    with pytest.raises(ReceiptTaken, match="has done join before"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", step="b")
    assert await calls(database) == ["joined"]
    assert len(await of_join(database, view.id)) == 1


async def test_receipt_of_a_join_is_its_own(runtime: Runtime, database: Database) -> None:
    await publish_joined(database, "all")
    view = await runtime.org(ORG, ANN).instances.start("joined")
    async with database.transaction(None) as connection:
        taken = {"instance_id": view.id, "idempotency_key": join_key(view.id, "join", 0, "0")}
        await insert(connection, "workflow_step_receipts", **taken)
    for name in NAMES[:3]:
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=name)
    with pytest.raises(ReceiptTaken, match="has done join before"):
        await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=NAMES[3])
    assert await calls(database) == []


@pytest.mark.parametrize("mode", ["all", "any"])
async def test_every_round_of_a_loop_is_an_epoch_of_its_own(
    runtime: Runtime, database: Database, mode: str
) -> None:
    await publish_joined(database, mode)
    view = await runtime.org(ORG, ANN).instances.start("joined")
    for answer in ("again", "again", "fine"):
        for name in NAMES if mode == "all" else NAMES[:1]:
            await runtime.org(ORG, ANN).instances.advance(view.id, "done", step=name)
        view = await runtime.org(ORG, ANN).instances.advance(view.id, answer)
    assert view.status == "completed"
    assert [step["token_id"] for step in await of_join(database, view.id)] == ["0", "1", "2"]
    keys = [step["idempotency_key"] for step in await rows(database, "workflow_step_executions")]
    assert len(set(keys)) == len(keys)
