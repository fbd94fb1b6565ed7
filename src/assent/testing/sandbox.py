"""An application with all that is around it, for one test: a database of its own, people, a worker, a clock to move."""

import asyncio
import copy
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from assent.app import App
from assent.compiler.declarations import DeclarationKind, kind_of
from assent.compiler.source import Source
from assent.definitions import publish_contract
from assent.definitions.publish import publish_sources
from assent.kernel.rules import save_rule
from assent.model.actor import SYSTEM, Actor
from assent.model.contract import parse_contract
from assent.runtime import Runtime
from assent.store.clock import MovedClock
from assent.store.connection import Connection
from assent.store.database import Database
from assent.store.queries import load_queries
from assent.store.table_grants import examine_table_grants, grant_tables
from assent.testing.databases import SETTINGS, START, Databases, server_url
from assent.testing.people import find_actor, keep_members, keep_org, keep_roles, read_people
from assent.testing.sources import Given, sources_of
from assent.testing.time_passing import drain, length_of, pass_time
from assent.worker.duty import Duty, WorkerContext
from assent.worker.loop import finish
from assent.worker.supervisor import duties

ORG: Final = "acme"

DUTIES: Final = ("recovered", "rescue", "timers", "timeouts", "schedules", "results", "events", "tasks")
"""What moves instances on. The sweeps would only clean up after them, and effects are kept instead of sent."""


ROWS_MAX: Final = 1_000
"""How many rows of a table of the application are read."""

_SQL: Final = load_queries("assent.testing", "testing.sql")


class Sandbox:
    """Runs an application in a test, from its definitions to its timers, in this process and without a sleep.

    async with Sandbox(app, ["invoices/"]) as sandbox:
        await sandbox.people(ann=["clerk"], fin=["finance_manager"])
        await sandbox.advance_time("3 days")

    What the application wants to send stays in the outbox, to be looked at; `send=True` sends it.
    """

    def __init__(  # noqa: PLR0913
        self,
        app: App | None = None,
        sources: Iterable[Given] = (),
        *,
        org_id: str = ORG,
        now: datetime = START,
        send: bool = False,
        server: str | None = None,
    ) -> None:
        self.app = _copy_of(app or App())
        self.org_id = org_id
        self.clock = MovedClock(now)
        self.database: Database
        self.runtime: Runtime
        self._sources = sources_of(sources)
        self._duty_names = (*DUTIES, "effects") if send else DUTIES
        if self.app.triggers or self.app.joins:
            self._duty_names = ("names", *self._duty_names)
        self._server = server
        self._duties: list[Duty] = []
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._open_database()
            self.runtime = self.app.runtime(self.database)
            self._duties = duties(WorkerContext(self.database, runtime=self.runtime), self._duty_names)
            for duty in self._duties:
                self._open.push_async_callback(finish, duty)
            await self.org_settings()
            await self._publish_contracts()
            await self._publish(self._sources)
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def publish(self, *sources: Given) -> None:
        """Publish contracts, patches and flows: files, folders, or data. Raises `Invalid` with every problem."""
        await self._publish(sources_of(sources))

    async def org_settings(self, **settings: Any) -> None:
        """Set what expressions read as `org.…`; other settings stay."""

        async def work(connection: Connection) -> None:
            await keep_org(connection, self.org_id, settings)

        await self.database.run(work, org_id=None)

    async def people(self, **people: Sequence[str] | Mapping[str, Any]) -> None:
        """Have these members: name → roles, or name → `{roles, manager, email, name, active}`."""
        found = read_people(people).people

        async def work(connection: Connection) -> None:
            await keep_members(connection, self.org_id, found)

        await self.database.run(work, org_id=None)

    async def roles(self, **roles: Sequence[str]) -> None:
        """Let roles have capabilities: role → capabilities such as `orders:approve`."""
        found = read_people({}, roles).roles

        async def work(connection: Connection) -> None:
            await keep_roles(connection, self.org_id, found)

        await self.database.run(work, org_id=None)

    async def rules(self, *rules: Mapping[str, Any]) -> None:
        """Save rules of the org around actions, each in place of the one of its name. Raises `Invalid`."""

        async def work(connection: Connection) -> None:
            for rule in rules:
                await save_rule(connection, self.app.registry, self.org_id, rule, self.clock.now())

        await self.database.run(work, org_id=self.org_id)

    async def sql(self, *files: Path) -> None:
        """Run files of SQL as the owner of the database: the application's own tables; `app.grant` holds for them."""
        texts = await asyncio.to_thread(lambda: [file.read_text(encoding="utf-8") for file in files])

        async def work(connection: Connection) -> None:
            for text in texts:
                await connection.execute(text)
            if not (await examine_table_grants(connection, self.app.grants)).unknown:
                await grant_tables(connection, self.app.grants)

        await self.database.run(work, org_id=None)

    async def put_rows(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Insert rows into the application's own tables: table → rows, each column → value."""

        async def work(connection: Connection) -> None:
            for table, rows in tables.items():
                columns = list(dict.fromkeys(column for row in rows for column in row))
                if columns:
                    text = await connection.fetchval(_SQL.text_of_insert, table, columns)
                    await connection.execute(text, [dict(row) for row in rows])

        await self.database.run(work, org_id=None)

    async def rows_of(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of one of the application's own tables, as JSON has them."""
        async with self.database.transaction(None) as connection:
            text = await connection.fetchval(_SQL.text_of_rows, table)
            return [row["found"] for row in await connection.fetch(text, ROWS_MAX)]

    async def actor(self, name: str) -> Actor:
        """Return a member with the roles and capabilities of now; raise `Refused` for anybody else."""
        async with self.database.transaction(self.org_id) as connection:
            return await find_actor(connection, self.org_id, name)

    async def drain(self) -> int:
        """Do everything that is due now: events, timers, timeouts, tasks. Answers how much that was."""
        return await drain(self._duties)

    async def advance_time(self, length: str | timedelta) -> None:
        """Let time pass: `90s`, `15m`, `24h`, `3d`, `3 days`. Whatever becomes due on the way happens at its time."""
        until = self.clock.now() + length_of(length)
        await pass_time(self.database, self.clock, self._duties, until)

    async def _open_database(self) -> None:
        url = self._server if self._server is not None else await asyncio.to_thread(server_url)
        databases = await self._open.enter_async_context(Databases.on(url))
        template = await databases.ensure_template()
        fresh = await self._open.enter_async_context(databases.fresh(template))
        self.database = await Database.open(fresh, settings=SETTINGS, clock=self.clock)
        self._open.push_async_callback(self.database.close)

    async def _publish_contracts(self) -> None:
        """Publish the application's own contracts; those without a workflow have nothing to publish."""
        with_workflow = [c for c in self.app.registry.contracts.values() if c.workflow != "none"]

        async def work(connection: Connection) -> None:
            for contract in with_workflow:
                await publish_contract(connection, contract, SYSTEM, self.clock.now())

        await self.database.run(work, org_id=None)

    async def _publish(self, sources: Sequence[Source]) -> None:
        async def work(connection: Connection) -> None:
            await publish_sources(connection, self.org_id, sources, SYSTEM, self.clock.now())

        await self.database.run(work, org_id=None)
        for source in sources:
            if kind_of(source) is DeclarationKind.CONTRACT:
                self._add_contract(source)

    def _add_contract(self, source: Source) -> None:
        contract, _ = parse_contract(source.data)
        if contract is not None and contract.name not in self.app.registry.contracts:
            self.app.add_contract(contract)


def _copy_of(app: App) -> App:
    """Return the application, to be given the contracts of a test; the one that was handed in stays as it is."""
    copied = copy.copy(app)
    copied.registry = copy.deepcopy(app.registry)
    copied.operations = dict(app.operations)
    copied.tasks = dict(app.tasks)
    copied.schedules, copied.triggers, copied.joins = dict(app.schedules), [*app.triggers], [*app.joins]
    return copied
