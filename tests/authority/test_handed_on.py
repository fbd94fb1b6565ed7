"""Work that comes to an approval by way of events, tasks, schedules, triggers and results is still its author's.

`dual` begins what lies on the way and holds the approvers' role too; `fin` is the other approver. Each way ends where a
variable of a flow, or an entity, has what `dual` brought, and its approval is asked.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import pytest

import assent
from assent.app import App
from assent.model.actor import SYSTEM, Actor
from assent.model.mutation import Command
from assent.runtime import Runtime
from assent.testing.sandbox import ORG, Sandbox
from assent.worker.duty import WorkerContext
from assent.worker.schedules import Schedules
from tests.authority.matrix import (
    APPROVAL,
    BILL,
    PEOPLE,
    ROLES,
    MatrixCompany,
    new_bill,
    patch_with,
)
from tests.authority.test_originators import decide, refusal_of
from tests.postgres import SETTINGS
from tests.workers import run_until_done

RIGHTS: Final = ["events:emit", "tasks:*", "schedules:*", "documents:*", "results:push"]
KEY: Final = "price"


def wait_flow(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    """A flow that gets `amount` by its first step, and asks for an approval of it."""
    names = [*(step["id"] for step in steps), "ask"]
    ways = [{"from": a, "to": b} for a, b in pairwise(names)]
    ways += [{"from": "ask", "event": answer, "to": "end"} for answer in ("approved", "rejected")]
    asks = {"id": "ask", "type": "approval", "approvers": {"role": "finance"}}
    ends = {"id": "end", "type": "terminal"}
    start = steps[0]["id"]
    return {"flow": name, "version": 1, "start": start, "steps": [*steps, asks, ends], "transitions": ways}


AMOUNT: Final = {"amount": "result.amount"}
FLOWS: Final = (
    wait_flow("by_event", {"id": "get", "type": "wait", "key": KEY, "output": AMOUNT}),
    wait_flow("by_bare_event", {"id": "get", "type": "wait", "key": KEY}),
    wait_flow("by_task", {"id": "get", "type": "task", "task": "tool.outside", "output": AMOUNT}),
    wait_flow("by_parent", {"id": "get", "type": "task", "task": "tool.parent", "output": AMOUNT}),
    wait_flow(
        "by_result",
        {
            "id": "get",
            "type": "webhook_out",
            "url": "https://kyc.example/x",
            "await": "result",
            "expects": 1,
            "output": {"amount": "result.received"},
        },
    ),
    {
        "flow": "emitting",
        "version": 1,
        "start": "form",
        "steps": [
            {
                "id": "form",
                "type": "action",
                "assignee": {"role": "clerk"},
                "form": {"amount": {"type": "integer"}},
            },
            {"id": "emit", "type": "emit", "key": KEY, "data": {"amount": "workflow.amount"}},
            {"id": "end", "type": "terminal"},
        ],
        "transitions": [{"from": "form", "to": "emit"}, {"from": "emit", "to": "end"}],
    },
)
ASK: Final = {
    "nodes": [APPROVAL],
    "edges": [{"from": "in", "to": "ask"}, {"from": "ask", "to": "out", "on": "approved"}],
}


class Handing:
    """An application whose tasks hand on what they were given."""

    def __init__(self) -> None:
        self.app = App([BILL])
        self.runtime: Runtime | None = None
        self.bill_id: UUID | None = None
        app = self.app

        @app.task("tool.emit")
        async def emit(task: Any, amount: int = 7) -> None:
            await task.emit(KEY, {"amount": amount})

        @app.task("tool.outside")
        async def outside() -> Any:
            return assent.Background("elsewhere", "1h")

        @app.task("tool.emit_by_runtime")
        async def emit_by_runtime(amount: int = 7) -> None:
            assert self.runtime is not None
            await app.emit(self.runtime.org(ORG), KEY, {"amount": amount})

        @app.task("tool.write")
        async def write(amount: int = 7, by: str | None = None) -> None:
            """Write a bill as the application, or in the name of an account."""
            assert self.runtime is not None
            actor = SYSTEM if by is None else Actor(by, "service_account", capabilities={"bill:*"})
            acme = self.runtime.org(ORG, actor)
            await acme.entities.mutate("bill.update", {"total": amount}, entity_id=self.bill_id)

        @app.task("tool.write_in_thread")
        def write_in_thread(amount: int = 7) -> None:
            assert self.runtime is not None
            acme = app.sync_runtime(self.runtime.core.database.url, settings=SETTINGS)
            with closing(acme):
                acme.org(ORG, SYSTEM).entities.mutate(
                    "bill.update", {"total": amount}, entity_id=self.bill_id
                )

        @app.task("tool.submit")
        async def submit(amount: int = 7) -> None:
            assert self.runtime is not None
            await self.runtime.org(ORG).tasks.submit("tool.emit", {"amount": amount})

        @app.task("tool.start")
        async def start(amount: int = 7) -> None:
            assert self.runtime is not None
            await self.runtime.org(ORG, SYSTEM).instances.start("asking", {"amount": amount})

        @app.trigger(on="order.arrived")
        @app.task("tool.triggered")
        async def triggered(task: Any, amount: int = 7) -> None:
            await task.emit(KEY, {"amount": amount})

        @app.trigger(on="document.version")
        @app.task("tool.filed")
        async def filed(task: Any) -> None:
            await task.emit(KEY, {"amount": 7})

        @app.trigger(on="task.completed:tool.read")
        @app.task("tool.after")
        async def after(task: Any) -> None:
            await task.emit(KEY, {"amount": 7})

        for half in ("left", "right"):

            @app.task(f"tool.{half}")
            async def read(hash: str = "h") -> None: ...

        @app.task("tool.read")
        async def reading(background: bool = False) -> Any:
            return assent.Background("elsewhere", "1h") if background else 1

        @app.join("tool.left", "tool.right", key="input.hash")
        @app.task("tool.joined")
        async def joined(task: Any) -> None:
            await task.emit(KEY, {"amount": 7})

        @app.task("tool.parent")
        class Parent:
            def on_start(self, task: Any, background: bool = True) -> Any:
                task.subtask("tool.outside" if background else "tool.left")
                return assent.Blocked()

            async def on_resume(self, task: Any) -> Any:
                (one,) = task.subtasks
                await task.emit(KEY, {"amount": 7})
                return one.output

        @app.task("tool.delegates")
        class Delegates:
            def on_start(self, task: Any) -> Any:
                task.subtask("tool.emit")
                return assent.Blocked()

            def on_resume(self) -> None: ...

    async def ask_for_bill(self, company: MatrixCompany) -> None:
        """Let `ann` make a bill, and submit what it has become."""
        await new_bill(company, "ann")
        self.bill_id = company.entity_id


@asynccontextmanager
async def company_of(handing: Handing, postgres_url: str) -> AsyncIterator[MatrixCompany]:
    sources = [*FLOWS, patch_with(submitted_to_approved=ASK), ASKING]
    async with Sandbox(handing.app, sources, server=postgres_url) as sandbox:
        await sandbox.people(**PEOPLE)
        await sandbox.roles(treasury=RIGHTS, **{name: ROLES[name] for name in ("operator", "admin")})
        handing.runtime = sandbox.runtime
        yield MatrixCompany(sandbox)


ASKING: Final = wait_flow("asking", {"id": "get", "type": "script", "set": {"begun": "true"}})


async def start(company: MatrixCompany, flow: str) -> None:
    """Let `ann` start a flow, and everything come to rest."""
    view = await company.runtime.org(ORG, await company.actor("ann")).instances.start(flow)
    company.instance_id = view.id
    await company.sandbox.drain()


async def as_dual(company: MatrixCompany) -> Any:
    return company.runtime.org(ORG, await company.actor("dual"))


async def only_task(company: MatrixCompany, kind: str) -> UUID:
    (row,) = await company.rows("SELECT id FROM assent.task_submissions WHERE type = $1", kind)
    found: UUID = row["id"]
    return found


Way = Callable[[Handing, MatrixCompany], Awaitable[None]]
WAYS: dict[str, Way] = {}


def way(work: Way) -> Way:
    WAYS[work.__name__] = work
    return work


@way
async def event(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    await (await as_dual(company)).events.emit(KEY, {"amount": 7})


@way
async def kept_event(handing: Handing, company: MatrixCompany) -> None:
    await (await as_dual(company)).events.emit(KEY, {"amount": 7})
    await company.sandbox.drain()
    await start(company, "by_event")


@way
async def task_that_emits(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    await (await as_dual(company)).tasks.submit("tool.emit")


@way
async def task_that_emits_by_the_runtime(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    await (await as_dual(company)).tasks.submit("tool.emit_by_runtime")


@way
async def task_that_submits_a_task(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    await (await as_dual(company)).tasks.submit("tool.submit")


@way
async def trigger(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    await (await as_dual(company)).events.emit("order.arrived", {"amount": 8})


@way
async def trigger_of_a_completed_task(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    await (await as_dual(company)).tasks.submit("tool.read")


@way
async def trigger_of_a_task_completed_from_outside(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    task = await company.runtime.org(ORG, await company.actor("ann")).tasks.submit(
        "tool.read", {"background": True}
    )
    await company.sandbox.drain()
    await (await as_dual(company)).tasks.complete(task.id, 1)


@way
async def join(handing: Handing, company: MatrixCompany) -> None:
    """Only the first of the two tasks is of `dual`."""
    await start(company, "by_event")
    await (await as_dual(company)).tasks.submit("tool.left", {"hash": "h"})
    await company.sandbox.drain()
    await company.runtime.org(ORG, await company.actor("ann")).tasks.submit("tool.right", {"hash": "h"})


@way
async def schedule(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    given = {"task": "tool.emit", "cron": "0 9 * * *", "input": {"amount": 9}}
    await (await as_dual(company)).schedules.save("nightly", given)
    company.sandbox.clock.advance("25h")
    await run_until_done(Schedules(WorkerContext(company.sandbox.database, runtime=company.runtime)))


@way
async def schedule_changed_by_another(handing: Handing, company: MatrixCompany) -> None:
    """What `dual` wrote is there still, at another time."""
    await start(company, "by_event")
    given = {"task": "tool.emit", "cron": "0 9 * * *", "input": {"amount": 9}}
    await (await as_dual(company)).schedules.save("nightly", given)
    adm = company.runtime.org(ORG, await company.actor("adm"))
    await adm.schedules.save("nightly", {**given, "cron": "0 10 * * *"})
    company.sandbox.clock.advance("25h")
    await run_until_done(Schedules(WorkerContext(company.sandbox.database, runtime=company.runtime)))


@way
async def schedule_that_another_runs(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    given = {"task": "tool.emit", "cron": "0 9 * * *", "input": {"amount": 9}}
    await (await as_dual(company)).schedules.save("nightly", given)
    await company.runtime.org(ORG, await company.actor("adm")).schedules.run("nightly")


@way
async def schedule_that_they_run(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    given = {"task": "tool.emit", "cron": "0 9 * * *", "input": {"amount": 9}}
    await company.runtime.org(ORG, await company.actor("adm")).schedules.save("nightly", given)
    await (await as_dual(company)).schedules.run("nightly")


@way
async def batch(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    tasks = (await as_dual(company)).tasks
    await tasks.submit_batch([assent.NewTask("tool.left")], assent.NewTask("tool.emit"))


@way
async def subtask_of_anothers_task(handing: Handing, company: MatrixCompany) -> None:
    """`ann` submits the task; `dual` completes its subtask from outside."""
    await start(company, "by_event")
    await company.runtime.org(ORG, await company.actor("ann")).tasks.submit("tool.parent")
    await company.sandbox.drain()
    await (await as_dual(company)).tasks.complete(await only_task(company, "tool.outside"), {"amount": 7})


@way
async def task_of_the_step(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_task")
    await (await as_dual(company)).tasks.complete(await only_task(company, "tool.outside"), {"amount": 7})


@way
async def subtask_of_the_step(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_parent")
    await (await as_dual(company)).tasks.complete(await only_task(company, "tool.outside"), {"amount": 7})


@way
async def result(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_result")
    (row,) = await company.rows("SELECT id FROM assent.outside_requests")
    await (await as_dual(company)).requests.push_result(row["id"], "k", [{"cargo": "external://vault/7"}])


@way
async def document(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    documents = (await as_dual(company)).documents
    made = await documents.create("passport", "ann")
    await documents.add_version(made.id, structured_data={"number": 7})


@way
async def another_flow(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    dual = await as_dual(company)
    view = await dual.instances.start("emitting")
    await dual.instances.advance(view.id, "completed", {"amount": 7})


@way
async def rule(handing: Handing, company: MatrixCompany) -> None:
    await start(company, "by_event")
    emits = {
        "name": "price",
        "entity_type": "bill",
        "action": "update",
        "timing": "after",
        "condition": "true",
        "outcome": "emit",
        "then": {"key": KEY, "payload": {"amount": "entity.total"}},
    }
    await company.sandbox.rules(emits)
    asking = company.instance_id
    await new_bill(company, "ann")
    dual = await company.actor("dual")
    await company.runtime.core.kernel.mutate(
        Command(ORG, "bill.update", dual, {"total": 9}, company.entity_id)
    )
    company.instance_id = asking


@way
async def task_that_writes(handing: Handing, company: MatrixCompany) -> None:
    await written(handing, company, "tool.write")


@way
async def task_that_writes_as_an_account(handing: Handing, company: MatrixCompany) -> None:
    await company.sandbox.people(bot={"kind": "service_account", "roles": ["clerk"]})
    await written(handing, company, "tool.write", by="bot")


@way
async def plain_function_that_writes(handing: Handing, company: MatrixCompany) -> None:
    await written(handing, company, "tool.write_in_thread")


async def written(handing: Handing, company: MatrixCompany, kind: str, **more: Any) -> None:
    await handing.ask_for_bill(company)
    await (await as_dual(company)).tasks.submit(kind, {"amount": 990_000, **more})
    await company.sandbox.drain()
    (row,) = await company.rows(
        "SELECT data ->> 'total' AS total FROM assent.current_entities WHERE id = $1", company.entity_id
    )
    assert row["total"] == "990000"
    await company.runtime.org(ORG, await company.actor("ann")).entities.transition(
        company.entity_id, "submit"
    )


@way
async def task_that_starts_a_flow(handing: Handing, company: MatrixCompany) -> None:
    await (await as_dual(company)).tasks.submit("tool.start")
    await company.sandbox.drain()
    (row,) = await company.rows("SELECT id FROM assent.workflow_instances")
    company.instance_id = row["id"]


@pytest.mark.parametrize("name", WAYS)
async def test_author_never_approves_what_was_handed_on(name: str, postgres_url: str) -> None:
    handing = Handing()
    async with company_of(handing, postgres_url) as company:
        await WAYS[name](handing, company)
        await company.sandbox.drain()
        request = await company.open_request()
        assert "dual" in request["originators"]
        assert await refusal_of(decide, company) == "SEPARATION_OF_DUTIES"
        company.trying = "fin"
        assert await refusal_of(decide, company) is None


async def test_subtask_hands_on_the_work_of_its_parent(postgres_url: str) -> None:
    """Also where the subtask alone emits."""
    handing = Handing()
    async with company_of(handing, postgres_url) as company:
        await start(company, "by_event")
        await (await as_dual(company)).tasks.submit("tool.delegates")
        await company.sandbox.drain()
        assert "dual" in (await company.open_request())["originators"]
        assert await refusal_of(decide, company) == "SEPARATION_OF_DUTIES"


async def test_event_that_sets_nothing_makes_nobody_an_originator(postgres_url: str) -> None:
    """Who says that something has happened is no author of what is approved then."""
    async with company_of(Handing(), postgres_url) as company:
        await start(company, "by_bare_event")
        await (await as_dual(company)).events.emit(KEY, {"amount": 7})
        await company.sandbox.drain()
        assert (await company.open_request())["originators"] == ["ann"]
        assert await refusal_of(decide, company) is None


async def test_maker_of_a_key_is_behind_what_its_account_hands_on(postgres_url: str) -> None:
    async with company_of(Handing(), postgres_url) as company:
        await company.sandbox.people(bot={"kind": "service_account", "roles": ["treasury"]})
        bot = replace(await company.actor("bot"), maker_id="dual")
        await start(company, "by_result")
        (row,) = await company.rows("SELECT id FROM assent.outside_requests")
        requests = company.runtime.org(ORG, bot).requests
        await requests.push_result(row["id"], "k", [{"cargo": "external://vault/7"}])
        await company.sandbox.drain()
        assert {"bot", "dual"} <= set((await company.open_request())["originators"])
        assert await refusal_of(decide, company) == "SEPARATION_OF_DUTIES"


async def test_people_of_a_task_are_none_of_the_next_task_of_its_worker(postgres_url: str) -> None:
    async with company_of(Handing(), postgres_url) as company:
        await start(company, "by_event")
        await (await as_dual(company)).tasks.submit("tool.left")
        await company.sandbox.drain()
        await company.runtime.org(ORG, await company.actor("ann")).tasks.submit("tool.emit_by_runtime")
        await company.sandbox.drain()
        assert (await company.open_request())["originators"] == ["ann"]
