"""Commands answer at once: whoever writes reads what was written."""

from typing import Any
from uuid import UUID

import pytest

from assent.app import App
from assent.model.actor import Actor
from assent.model.mutation import Command, Refused
from assent.runtime import Runtime
from assent.store.database import Database
from tests.authored import END, arrows, call, form, script
from tests.world import ANN, OPS, ORG, drain, publish_steps, rows, steps_of


async def code_of(awaited: Any) -> str:
    with pytest.raises(Refused) as caught:
        await awaited
    return caught.value.code


async def test_a_flow_runs_to_its_end_in_one_command(runtime: Runtime, database: Database) -> None:
    await publish_steps(
        database, "a.b", [script("one"), script("two", x="workflow.n"), END], arrows("one", "two", "end")
    )
    view = await runtime.org(ORG, ANN).instances.start("a.b", {"n": 5})
    assert (view.status, view.context["x"]) == ("completed", 5)
    steps = await steps_of(database, view.id)
    assert [step["node_id"] for step in steps] == ["ctl:start", "sys:start", "one", "two", "end"]
    assert {step["actor_user_id"] for step in steps} == {"ann"}
    (two,) = [step["output_json"]["expressions"] for step in steps if step["node_id"] == "two"]
    assert two == {"x": {"expression": "workflow.n", "variables": {"workflow.n": 5}, "result": 5}}
    receipts = {row["idempotency_key"] for row in await rows(database, "workflow_step_receipts")}
    assert receipts == {step["idempotency_key"] for step in steps}


async def test_a_form_waits_and_goes_on_with_what_was_filled_in(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "a.b", [form("ask"), END], arrows("ask", "end", event="done"))
    view = await runtime.org(ORG, ANN).instances.start("a.b")
    assert [(w.name, w.answers) for w in view.waiting] == [("ask", ("done",))]
    view = await runtime.org(ORG, ANN).instances.advance(view.id, "done", {"name": "Ann"})
    assert (view.status, view.context) == ("completed", {"name": "Ann"})
    (ask,) = [step for step in await steps_of(database, view.id) if step["node_id"] == "ask"]
    assert (ask["status"], ask["output_json"]["data"]) == ("completed", {"name": "Ann"})


async def test_what_cannot_be_is_refused_and_nothing_changes(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "a.b", [form("ask"), END], arrows("ask", "end", event="done"))
    view = await runtime.org(ORG, ANN).instances.start("a.b")
    before = await rows(database, "workflow_instances")
    assert await code_of(runtime.org(ORG, ANN).instances.advance(view.id, "eaten")) == "INVALID_TRANSITION"
    assert await code_of(runtime.org("other", ANN).instances.advance(view.id, "done")) == "NOT_FOUND"
    assert await code_of(runtime.org(ORG, ANN).instances.advance(UUID(int=9), "done")) == "NOT_FOUND"
    assert await code_of(runtime.org(ORG, ANN).instances.start("no.such.flow")) != ""
    assert await rows(database, "workflow_instances") == before


async def test_a_key_starts_one_instance_however_often(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "a.b", [form("ask"), END], arrows("ask", "end", event="done"))
    first, second = [
        await runtime.org(ORG, ANN).instances.start("a.b", idempotency_key="k") for _ in range(2)
    ]
    assert (first.id, first.version) == (second.id, second.version)
    assert len(await rows(database, "workflow_instances")) == 1


async def test_an_operation_writes_in_the_transaction_of_its_step(
    app: App, runtime: Runtime, database: Database
) -> None:
    async def remember(connection: Any, arguments: Any) -> dict[str, Any]:
        await connection.execute(
            "INSERT INTO assent.members (org_id, user_id, name) VALUES ('acme', $1, 'x')", arguments["who"]
        )
        return {"done": True}

    runtime.core.advancing.operations["people.remember"] = remember
    steps = [
        call("call", "people.remember", input={"who": "workflow.who"}, output={"ok": "result.done"}),
        END,
    ]
    await publish_steps(database, "a.b", steps, arrows("call", "end"))
    view = await runtime.org(ORG, ANN).instances.start("a.b", {"who": "kim"})
    assert (view.status, view.context["ok"]) == ("completed", True)
    assert [row["user_id"] for row in await rows(database, "members")] == ["kim"]


async def test_pause_resume_cancel(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "a.b", [form("ask"), END], arrows("ask", "end", event="done"))
    view = await runtime.org(ORG, ANN).instances.start("a.b")
    assert (await runtime.org(ORG, OPS).instances.pause(view.id, "lunch")).status == "paused"
    assert await code_of(runtime.org(ORG, ANN).instances.advance(view.id, "done")) == "WORKFLOW_NOT_ACTIVE"
    assert (await runtime.org(ORG, OPS).instances.resume(view.id)).status == "running"
    assert (await runtime.org(ORG, ANN).instances.cancel(view.id, "enough")).status == "cancelled"
    assert await code_of(runtime.org(ORG, ANN).instances.cancel(view.id, "again")) == "WORKFLOW_NOT_ACTIVE"


async def test_flows_start_in_the_background_too(runtime: Runtime, database: Database) -> None:
    await publish_steps(database, "a.b", [script("one"), END], arrows("one", "end"))
    ids = await runtime.org(ORG, Actor("ann")).instances.start_many("a.b", [{"n": n} for n in range(50)])
    assert await drain(runtime) == 50
    found = await rows(database, "workflow_instances")
    assert {row["id"]: row["context_json"]["n"] for row in found} == {id: n for n, id in enumerate(ids)}
    assert {row["status"] for row in found} == {"completed"}
    assert {row["status"] for row in await rows(database, "workflow_events_outbox")} == {"completed"}
    assert await rows(database, "workflow_batches") == []


async def test_steps_keep_what_they_were_given_without_headers(app: App, database: Database) -> None:
    app.operation("shop.confirm")(lambda connection, arguments: {"ok": True})

    @app.task("archive")
    async def archive(task: Any, number: int) -> None:
        """Never run here."""

    runtime = app.runtime(database)
    new = Command(ORG, "expense.create", ANN, {"title": "Taxi", "total": 1})
    expense = (await runtime.core.kernel.mutate(new)).entity
    steps = [
        call("confirm", "shop.confirm", input={"order": "workflow.order", "large": "workflow.large"}),
        {"id": "write", "type": "mutation", "action": "expense.update", "entity": "workflow.expense"}
        | {"payload": {"note": "order {workflow.order}"}},
        {
            "id": "keep",
            "type": "task",
            "task": "archive",
            "input": {"number": "workflow.order"},
            "await": False,
        },
        {"id": "tell", "type": "webhook_out", "url": "https://erp.example/{workflow.order}"}
        | {"headers": {"Authorization": "Bearer {secret.erp}"}, "body": {"order": "{workflow.order}"}},
        {
            "id": "mail",
            "type": "notification",
            "channel": "email",
            "to": "ann",
            "text": "It is {workflow.order}.",
        },
        END,
    ]
    await publish_steps(database, "a.b", steps, arrows(*[step["id"] for step in steps]))
    given = {"order": 7, "large": "x" * 5_000, "expense": str(expense.id)}
    view = await runtime.org(ORG, ANN).instances.start("a.b", given)
    found = {step["node_id"]: step["input_json"] for step in await steps_of(database, view.id)}
    assert view.status == "completed", view.incident
    assert (found["confirm"]["order"], len(found["confirm"]["large"]) < 1_100) == (7, True)
    assert found["write"] == {"payload": {"note": "order 7"}, "entity": str(expense.id)}
    assert found["keep"] == {"number": 7}
    assert found["tell"] == {"url": "https://erp.example/7", "method": "POST", "body": {"order": 7}}
    assert found["mail"] == {"to": "ann", "subject": None, "text": "It is 7."}
    assert found["end"] is None
    assert "erp}" not in str(found)
    assert "Bearer" not in str(found)


async def test_input_that_is_large_in_many_parts_is_kept_as_its_size(app: App, database: Database) -> None:
    app.operation("shop.confirm")(lambda connection, arguments: {"ok": True})
    runtime = app.runtime(database)
    confirm = call("confirm", "shop.confirm", input={"lines": "workflow.lines"})
    await publish_steps(database, "a.b", [confirm, END], arrows("confirm", "end"))
    view = await runtime.org(ORG, ANN).instances.start("a.b", {"lines": [{"text": "x" * 900}] * 40})
    (step,) = [one for one in await steps_of(database, view.id) if one["node_id"] == "confirm"]
    assert list(step["input_json"]) == ["…"]
