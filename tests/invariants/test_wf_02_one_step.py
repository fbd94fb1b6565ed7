"""WF-02: one step per instance, node, token and entity version, whoever asks for it and however often."""

import asyncio
import random

from assent.app import App
from assent.model.mutation import Refused, Rejection
from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END, arrows, call, form
from tests.processes.application import calls
from tests.processes.spawn import children
from tests.runtime.spoiling import projection, put_back, reopen_forms
from tests.world import ANN, OPS, ORG, publish_steps, rows, steps_of

STEPS = [form("ask"), call("write", "tests.mark", input={"what": "'once'"}), form("again"), END]
TRANSITIONS = [
    *arrows("ask", "write", event="done"),
    *arrows("write", "again"),
    *arrows("again", "end", event="done"),
    {"from": "again", "event": "back", "to": "ask"},
]


async def test_processes_that_believe_a_step_is_still_to_come_cannot_do_it_again(
    runtime: Runtime, database: Database
) -> None:
    """Their projection is old: the receipt, and not the instance's row, says what was done."""
    await publish_steps(database, "writing", STEPS, TRANSITIONS)
    view = await runtime.org(ORG, ANN).instances.start("writing")
    before = await projection(database, view.id)
    await runtime.org(ORG, ANN).instances.advance(view.id, "done")
    done = await steps_of(database, view.id)
    await put_back(database, view.id, before)
    await reopen_forms(database, view.id)
    async with children(database, 2) as writers:
        asked = {"instance": view.id, "event": "done", "step": "ask"}
        answers = await asyncio.gather(*(writer.ask("advance", **asked) for writer in writers))
    assert [answer.partition(":")[0] for answer in answers] == ["ReceiptTaken"] * 2
    assert await calls(database) == ["once"]
    assert await steps_of(database, view.id) == done


async def test_of_processes_that_race_for_receipts_each_receipt_goes_to_one(
    runtime: Runtime, database: Database
) -> None:
    await publish_steps(database, "writing", STEPS, TRANSITIONS)
    view = await runtime.org(ORG, ANN).instances.start("writing")
    keys = [f"key-{number}" for number in range(150)]
    async with children(database, 3) as takers:
        orders = [random.Random(seed).sample(keys, len(keys)) for seed in range(3)]  # noqa: S311
        given = await asyncio.gather(
            *(
                taker.ask("take_receipts", instance=view.id, keys=order)
                for taker, order in zip(takers, orders, strict=True)
            )
        )
    assert sum(given) == len(keys)


async def test_another_round_and_another_attempt_are_other_steps(database: Database) -> None:
    """A loop, a failure and two retries: every step has a key of its own, and a receipt for it."""
    broken = iter([True, True, False, True, False])

    def write(connection: object, arguments: object) -> None:
        if next(broken):
            raise Refused(Rejection("CLOSED", "the shop is closed"))

    app = App()
    app.operation("tests.mark")(write)
    runtime = app.runtime(database)
    await publish_steps(database, "writing", STEPS, TRANSITIONS)
    view = await runtime.org(ORG, ANN).instances.start("writing")
    assert (await runtime.org(ORG, ANN).instances.advance(view.id, "done")).status == "paused"
    assert (await runtime.org(ORG, OPS).instances.retry(view.id)).status == "paused"
    assert (await runtime.org(ORG, OPS).instances.retry(view.id)).status == "running"
    await runtime.org(ORG, ANN).instances.advance(view.id, "back")
    assert (await runtime.org(ORG, ANN).instances.advance(view.id, "done")).status == "paused"
    assert (await runtime.org(ORG, OPS).instances.retry(view.id)).status == "running"
    steps = await steps_of(database, view.id)
    written = [(step["token_id"], step["status"]) for step in steps if step["node_id"] == "write"]
    assert written == [
        ("0", "failed"),
        ("0!1", "failed"),
        ("0!2", "completed"),
        ("1", "failed"),
        ("1!1", "completed"),
    ]
    keys = [step["idempotency_key"] for step in steps]
    assert len(set(keys)) == len(keys)
    assert {row["idempotency_key"] for row in await rows(database, "workflow_step_receipts")} == set(keys)
