"""`assent demo`: a company with people and documents on a database of its own, served until Ctrl-C."""

import asyncio
import os
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from assent.cli.serve import HostOption, PortOption, require_http

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from socket import socket

    from assent.http.context import DemoPerson
    from assent.store.database import Database

DEMO_FOLDER = Path(".assent/demo")

DataOption = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="ASSENT_DATA_DIR",
        help="Where the demo's database and keys live; delete it to start over.",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Take the database of ASSENT_DATABASE_URL, which is not the demo's own."),
]


def demo(
    data_dir: DataOption = DEMO_FOLDER,
    force: ForceOption = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
) -> None:
    """See what Assent is for: a company with some forty documents, its HTTP API and a worker, until Ctrl-C."""
    screen = Console(highlight=False)
    if os.environ.get("ASSENT_DATABASE_URL") and not force:
        message = (
            "ASSENT_DATABASE_URL is set, and the demo would write its company, people and keys there. "
            "Unset it for a database of the demo's own, or say --force"
        )
        screen.print(message, style="red", soft_wrap=True)
        raise typer.Exit(2)
    require_http("assent demo")
    from assent.http.server import CannotListen, listen

    try:
        with listen(host, port) as listening:
            asyncio.run(_open(data_dir.absolute(), screen, listening))
    except CannotListen as error:
        screen.print(str(error), style="red")
        raise typer.Exit(1) from None


@asynccontextmanager
async def _database(data_dir: Path, screen: Console) -> "AsyncIterator[Database]":
    from assent.cli.output import counted
    from assent.store.database import Database
    from assent.store.migrate import migrate
    from assent.store.settings import Settings

    settings = Settings()
    if settings.database_url is None:
        screen.print("[dim]Starting a PostgreSQL of our own …[/]")
        settings = settings.replace(data_dir=data_dir)
    database = await Database.open(settings=settings)
    try:
        applied = await migrate(database)
        screen.print(f"[dim]Database ready, {counted(len(applied), 'migration')} applied.[/]")
        yield database
    finally:
        await database.close()


async def _open(data_dir: Path, screen: Console, listening: "socket") -> None:
    from assent.demo.company import ORG, app, change_keys, is_founded, read_keys, welcome
    from assent.effects.settings import CHANNELS, EffectSettings, SendingSettings
    from assent.running import serving
    from assent.worker.process import stopping_on_signals

    async with _database(data_dir, screen) as database:
        founded = await is_founded(database)
        if founded is None:
            screen.print(f"{ORG} was left half-built; delete {data_dir} and start over", style="red")
            raise typer.Exit(1)
        if not founded:
            await _found(database, screen)
        keys = read_keys(data_dir) if founded else None
        if keys is None:
            keys = await change_keys(database, data_dir)
        # Northwind's mails are written to the log: there are no mailboxes.
        sending = SendingSettings.defaults(EffectSettings.defaults(log=frozenset(CHANNELS)))
        host, port = listening.getsockname()[:2]
        service = serving(app, database, listening, sending, _people(host))
        with stopping_on_signals(lambda _: service.stop()):
            await welcome(database, screen, f"http://{host}:{port}", keys)
            await service.run()
    screen.print("[dim]Closed.[/]")


def _people(host: str) -> "list[DemoPerson]":
    """Return the people that visitors may sign in as; none where other machines reach the demo."""
    from ipaddress import ip_address

    from assent.demo.company import ORG, PEOPLE
    from assent.http.context import DemoPerson

    if not ip_address(host).is_loopback:
        return []
    return [DemoPerson(ORG, user, name) for user, (name, _, _) in PEOPLE.items()]


async def _found(database: "Database", screen: Console) -> None:
    """Create the company, and nine days of its work, on a clock of their own."""
    from rich.progress import Progress

    from assent.demo.company import app, finish, found
    from assent.demo.documents import DAYS, Office
    from assent.store.clock import MovedClock
    from assent.store.database import Database
    from assent.store.moved_time import moved_time

    until = database.clock.now()
    clock = MovedClock(until - timedelta(days=DAYS))
    past = await Database.open(database.url, settings=database.settings, clock=clock)
    try:
        async with moved_time(database):
            await found(past)
            with Progress(console=screen, transient=True) as progress:
                task = progress.add_task("Nine days at Northwind", total=None)
                note = lambda done, total: progress.update(task, completed=done, total=total)  # noqa: E731
                await Office(app.runtime(past), clock).work(until, note)
            await finish(past)
    finally:
        await past.close()
