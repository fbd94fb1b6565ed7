"""An application as one process: its database brought up to date, what it declares published, API and worker served."""

import asyncio
from collections.abc import Iterable, Sequence
from socket import socket

from assent.app import App
from assent.cluster.settings import ClusterSettings
from assent.compiler.source import Source
from assent.definitions.publish import publish_sources
from assent.effects.settings import SendingSettings
from assent.http.app import create_app
from assent.http.context import DemoPerson
from assent.http.server import Serving, listen
from assent.http.settings import HttpSettings
from assent.model.actor import SYSTEM
from assent.model.problems import Invalid
from assent.people.members import MemberFilter, list_members
from assent.people.orgs import ensure_org
from assent.store.database import Database
from assent.store.migrate import migrate
from assent.store.table_grants import grant_tables
from assent.transports.settings import StreamSettings
from assent.worker.duty import Observer, WorkerContext
from assent.worker.options import Options
from assent.worker.process import stopping_on_signals
from assent.worker.supervisor import Supervisor, duties


def run(app: App, *, org: str, host: str, port: int) -> None:
    """Run until a signal."""
    with listen(host, port) as listening:
        asyncio.run(_run(app, org, listening))


async def _run(app: App, org: str, listening: socket) -> None:
    database = await Database.open()
    try:
        await migrate(database)
        if problems := app.check().problems:
            raise Invalid(problems)
        async with database.transaction(None) as connection:
            await grant_tables(connection, app.grants)
            await ensure_org(connection, org)
        await publish(database, org, app.sources)
        service = serving(app, database, listening, SendingSettings())
        host, port = listening.getsockname()[:2]
        with stopping_on_signals(lambda _: service.stop()):
            print(f"Serving {org} on http://{host}:{port}; Ctrl-C ends it.", flush=True)
            if not await has_members(database, org):
                print(first_steps(app, org), flush=True)
            await service.run()
    finally:
        await database.close()


async def has_members(database: Database, org: str) -> bool:
    async with database.transaction(org) as connection:
        return bool(await list_members(connection, org, MemberFilter(active=True), None, 1))


def first_steps(app: App, org: str) -> str:
    """Return what a developer does next, when the org has no member yet."""
    contracts = app.registry.contracts.values()
    roles = sorted({role for each in contracts for held in each.permissions.values() for role in held})
    known = ", ".join(roles) or "(none)"
    lines = [
        f"{org} has no members yet; its contracts know the roles {known}. To call the API:",
        f"  assent members add ann --org {org} --role {roles[0] if roles else 'admin'}",
        f"  assent keys create --org {org} --user ann --name 'my laptop'",
    ]
    return "\n".join(lines)


async def publish(database: Database, org: str, sources: Sequence[Source]) -> None:
    """Publish what the application declares, for an org; what is published as it is, stays as it is."""
    async with database.transaction(None) as connection:
        await publish_sources(connection, org, sources, SYSTEM, database.clock.now())


def serving(
    app: App,
    database: Database,
    listening: socket,
    sending: SendingSettings,
    demo_people: Sequence[DemoPerson] = (),
) -> Serving:
    """Return the API and a worker on one socket."""
    settings = HttpSettings()
    worker = worker_of(app, database, sending, Options())
    door = create_app(app, database, settings, demo_people=demo_people)
    return Serving(door, listening, settings, worker)


def worker_of(
    app: App,
    database: Database,
    sending: SendingSettings,
    options: Options,
    observers: Iterable[Observer] = (),
) -> Supervisor:
    """Return every duty, for the process that also serves."""
    runtime = app.runtime(database)
    events, streams = app.event_processor(runtime), StreamSettings()
    place = WorkerContext(
        *(database, options, runtime, sending),
        streams=streams,
        cluster=ClusterSettings(),
        events=events,
        serves=True,
    )
    return Supervisor(database, duties(place), options, observers)
