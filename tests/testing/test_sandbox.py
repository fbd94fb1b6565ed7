"""A sandbox is an application by itself: with its own database, people and definitions, gone when the test is."""

from pathlib import Path
from typing import Any, ClassVar

import asyncpg
import pytest

from assent.app import App
from assent.model.mutation import Command, Refused
from assent.model.problems import Invalid
from assent.tasks.context import TaskContext
from assent.testing import START, Sandbox
from tests.authored import DESIGN, invoice_contract, invoice_patch

DATA = {"number": "1", "vendor_id": "v-9", "grand_total": 1, "currency": "EUR"}


async def test_a_sandbox_has_a_database_of_its_own_that_goes_with_it(postgres_url: str) -> None:
    async with Sandbox(server=postgres_url) as one, Sandbox(server=postgres_url) as other:
        await one.people(ann=["clerk"])
        assert (await one.actor("ann")).roles == {"clerk"}
        with pytest.raises(Refused, match="NOT_A_MEMBER"):
            await other.actor("ann")
        url = one.database.url
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)


async def test_without_a_server_one_is_started_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSENT_TEST_DATABASE_URL", raising=False)
    async with Sandbox() as sandbox, sandbox.database.transaction(None) as connection:
        assert await connection.fetchval("SELECT assent.now()") == START


async def test_contracts_patches_and_flows_come_from_files_folders_and_data(postgres_url: str) -> None:
    sources = [str(DESIGN / "invoice.contract.yaml"), invoice_patch(), DESIGN / "orders.flow.yaml"]
    async with Sandbox(sources=sources, server=postgres_url) as sandbox:
        await sandbox.people(ann=["clerk"])
        await sandbox.roles(clerk=["orders:approve:execute"])
        entity = await created(sandbox)
        await sandbox.drain()
        view = await sandbox.runtime.org(sandbox.org_id, await sandbox.actor("ann")).instances.start(
            "orders.approval"
        )
    assert entity.state == "draft"
    assert view.workflow_id == "orders.approval"


async def created(sandbox: Sandbox):  # type: ignore[no-untyped-def]
    command = Command(sandbox.org_id, "invoice.create", await sandbox.actor("ann"), DATA)
    return (await sandbox.runtime.core.kernel.mutate(command)).entity


async def test_the_application_that_is_handed_in_stays_as_it_is(postgres_url: str) -> None:
    app = App()
    for _ in range(2):
        async with Sandbox(app, [DESIGN], server=postgres_url) as sandbox:
            assert list(sandbox.app.registry.contracts) == ["invoice"]
    assert list(app.registry.contracts) == []


async def test_contracts_of_the_application_are_published_and_its_actions_run(postgres_url: str) -> None:
    app = App([invoice_contract()])

    @app.action("invoice.file")
    def file(invoice, payload):  # type: ignore[no-untyped-def]
        return {"cost_center": "archive"}

    async with Sandbox(app, [invoice_patch()], server=postgres_url) as sandbox:
        await sandbox.people(ann=["clerk"])
        await sandbox.roles(clerk=["invoice:file"])
        entity = await created(sandbox)
        filing = Command(sandbox.org_id, "invoice.file", await sandbox.actor("ann"), {}, entity.id)
        filed = (await sandbox.runtime.core.kernel.mutate(filing)).entity
        assert await sandbox.drain() > 0
    assert filed.data["cost_center"] == "archive"


async def test_problems_of_what_is_published_are_all_told(postgres_url: str) -> None:
    with pytest.raises(Invalid) as refused:
        async with Sandbox(sources=[{"contract": "note"}, {"flow": "a.b"}], server=postgres_url):
            pass
    assert {problem.source for problem in refused.value.problems} == {"source 1", "source 2"}


async def test_a_path_that_leads_nowhere_is_told_at_once() -> None:
    with pytest.raises(FileNotFoundError, match="found nothing at no/such/folder"):
        Sandbox(sources=["no/such/folder"])


async def test_people_have_managers_capabilities_and_may_leave(postgres_url: str) -> None:
    async with Sandbox(server=postgres_url) as sandbox:
        await sandbox.people(ann={"roles": ["clerk"], "manager": "max"}, max=["manager"])
        await sandbox.roles(clerk=["orders:approve"])
        assert (await sandbox.actor("ann")).can("orders:approve")
        await sandbox.people(ann={"roles": ["clerk"], "active": False})
        with pytest.raises(Refused, match="NOT_A_MEMBER"):
            await sandbox.actor("ann")


async def test_people_who_make_no_sense_are_refused(postgres_url: str) -> None:
    async with Sandbox(server=postgres_url) as sandbox:
        with pytest.raises(Invalid, match="boss"):
            await sandbox.people(ann={"boss": "max"})
        with pytest.raises(Invalid, match="BAD_CAPABILITY"):
            await sandbox.roles(clerk=["NOT A CAPABILITY"])


async def test_settings_are_added_to_those_that_are_there(postgres_url: str) -> None:
    async with Sandbox(server=postgres_url) as sandbox:
        await sandbox.org_settings(one=1, two=2)
        await sandbox.org_settings(two=3)
        async with sandbox.database.transaction(sandbox.org_id) as connection:
            assert await connection.fetchval("SELECT settings FROM assent.orgs") == {"one": 1, "two": 3}


class TestSending:
    """What goes out: kept, unless the test wants it sent."""

    FLOW: ClassVar = {
        "flow": "a.b",
        "version": 1,
        "start": "pay",
        "steps": [
            {
                "id": "pay",
                "type": "system",
                "operation": {"sdk": "bank.pay"},
                "output": {"paid": "result.paid"},
            },
            {"id": "tell", "type": "notification", "channel": "sms", "to": "+49", "text": "Paid."},
            {"id": "done", "type": "terminal"},
        ],
        "transitions": [
            {"from": "pay", "event": "completed", "to": "tell"},
            {"from": "tell", "event": "completed", "to": "done"},
        ],
    }

    @pytest.fixture
    def sent(self) -> list[str]:
        return []

    @pytest.fixture
    def app(self, sent: list[str]) -> App:
        app = App()

        @app.operation("bank.pay", outside=True)
        async def pay(arguments: Any, key: str) -> dict[str, Any]:
            sent.append("pay")
            return {"paid": True}

        async def text(message: Any) -> None:
            sent.append("sms")

        return app.adapter("sms", text)

    async def status(self, sandbox: Sandbox) -> str:
        async with sandbox.database.transaction(None) as connection:
            return str(await connection.fetchval("SELECT status FROM assent.workflow_instances"))

    @pytest.mark.parametrize(
        ("send", "outcome"), [(True, ("completed", ["pay", "sms"])), (False, ("running", []))]
    )
    async def test_effects_are_sent_when_the_test_wants_it(
        self, app: App, sent: list[str], postgres_url: str, send: bool, outcome: tuple[str, list[str]]
    ) -> None:
        async with Sandbox(app, [self.FLOW], send=send, server=postgres_url) as sandbox:
            await sandbox.people(ann=[])
            await sandbox.runtime.org(sandbox.org_id, await sandbox.actor("ann")).instances.start("a.b")
            await sandbox.advance_time("1 day")
            assert (await self.status(sandbox), sent) == outcome


async def test_tasks_with_limits_are_done_when_the_sandbox_is_drained(postgres_url: str) -> None:
    """A worker hears of them by a notification, and looks by itself once in a second: a sandbox waits for neither."""
    app = App().resource("scanner", max_concurrency=1)

    @app.task("tests.scan", resources=["scanner"])
    def scan() -> str:
        return "scanned"

    async with Sandbox(app, server=postgres_url) as sandbox:
        acme = sandbox.runtime.org(sandbox.org_id)
        for _ in range(3):
            task = await scan.submit(acme)
            await sandbox.drain()
            assert await task.status() == "done"


async def test_what_the_application_declares_holds_for_tables_of_its_files(
    postgres_url: str, tmp_path: Path
) -> None:
    app = App().grant("scans", "INSERT").grant("pages")

    @app.task("tests.save", attempts_max=1)
    async def save(task: TaskContext) -> None:
        async with task.transaction() as connection:
            await connection.execute("INSERT INTO public.scans VALUES (1)")

    for table in ("scans", "pages"):
        (tmp_path / f"{table}.sql").write_text(f"CREATE TABLE public.{table} (number integer);")
    async with Sandbox(app, server=postgres_url) as sandbox:
        for table in ("scans", "pages"):
            await sandbox.sql(tmp_path / f"{table}.sql")  # at the first, the other table is not there yet
        task = await save.submit(sandbox.runtime.org(sandbox.org_id))
        await sandbox.drain()
        assert await task.status() == "done"
        assert await sandbox.rows_of("scans") == [{"number": 1}]
