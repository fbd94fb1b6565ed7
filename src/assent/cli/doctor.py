"""`assent doctor`: what keeps this program from working on its database, and what repairs it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer

from assent.cli.options import JsonOption, OptionalAppOption, load_app
from assent.cli.output import console, print_json, safe

if TYPE_CHECKING:
    from assent.documents.blobs import BlobSettings
    from assent.store.checkup import Checkup, Finding
    from assent.store.table_grants import TableGrants


NO_MAIL_SERVER_NOTE: Final = (
    "no mail server is named here: unless the application has an adapter for email, mails that ask people are skipped "
    "and notifications by e-mail are dead letters; set ASSENT_SMTP_HOST and ASSENT_SMTP_SENDER for the workers"
)


def doctor(app: OptionalAppOption = None, json: JsonOption = False) -> None:
    """Check roles, grants, schema, extensions, clock, pool, partitions, timers, notifications, streams and the cluster.

    With --app, also the rights of the engine's role on the application's own tables.

    Ends with 1 when something must be repaired. What it prints is SQL: statements that repair roles and grants, with
    comments that say who runs them; everything else is said in comments.
    """
    from assent.model.problems import Invalid
    from assent.store.errors import StoreError

    try:
        found = asyncio.run(_examine(load_app(app).grants if app is not None else {}))
    except (StoreError, Invalid) as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    if json:
        print_json(found.to_json())
    else:
        _print(found)
    raise typer.Exit(0 if found.is_healthy else 1)


def _print(found: "Checkup") -> None:
    for finding in found.findings:
        for line in f"{finding.check}: {finding.problem}\nto do: {finding.remedy}".splitlines():
            print(f"-- {safe(line)}")
    notes = [*found.notes]
    if found.roles is not None:
        _print_part("Roles: run this as an administrator of the server.", found.roles.roles)
        _print_part(
            "Rights that migrations granted and that are gone: run this as the owner.", found.roles.missing
        )
        _print_part(
            "Rights that no migration granted: run this as the owner, or know why not.", found.roles.beyond
        )
        notes += found.roles.notes
    for note in notes:
        print(f"-- note: {safe(note)}")
    if found.is_healthy:
        print("-- all is well: roles, grants, schema, extensions, clock, pool, partitions, timers")


def _print_part(heading: str, statements: Sequence[str]) -> None:
    from assent.store.roles import as_script

    if statements:
        print(f"-- {heading}\n{as_script(statements)}")


async def _examine(grants: "TableGrants") -> "Checkup":
    from assent.documents.blobs import BlobSettings
    from assent.effects.settings import SmtpSettings
    from assent.store.checkup import Finding, PoolUse, examine_database, examine_notifications
    from assent.store.database import Database
    from assent.store.migrate import owner_connection
    from assent.transports.open import stream_problems
    from assent.transports.settings import StreamSettings
    from assent.worker.options import Options

    options, smtp = Options(), SmtpSettings()
    # A lane of events has a second connection for the note about its batch.
    lanes = 2 * options.events_lanes + options.tasks_lanes
    database = await Database.open()
    try:
        async with owner_connection(database) as connection:
            pool = PoolUse(database.settings.pool_connections_max, lanes)
            found = await examine_database(connection, pool, grants=grants)
        deaf = await examine_notifications(database.url, database.settings)
        unread = [
            Finding("streams", f"{problem.path[0]}: {problem.message}", problem.hint or "")
            for problem in stream_problems(StreamSettings())
        ]
        found = replace(found, findings=[*found.findings, *deaf, *unread, *await examine_cluster()])
    finally:
        await database.close()
    notes = [*found.notes, *_notes_about_files(BlobSettings())]
    return replace(found, notes=notes if smtp.is_complete else [*notes, NO_MAIL_SERVER_NOTE])


async def examine_cluster() -> "list[Finding]":
    """Return what keeps the workers from the cluster, where one is named."""
    from assent.cluster.settings import ClusterSettings
    from assent.store.checkup import Finding

    settings = ClusterSettings()
    if not settings.address:
        return []
    from assent.cluster.executor import count_nodes

    name = settings.variable("address")
    try:
        nodes = await count_nodes(settings)
    except (OSError, TimeoutError, ValueError) as error:
        problem = f"no scheduler answers at {settings.address}: {type(error).__name__}: {error}"
        return [Finding("cluster", problem, f"start it, or correct {name}; its tasks wait until then")]
    if not nodes:
        problem = f"the scheduler at {settings.address} has no nodes"
        return [
            Finding(
                "cluster", problem, f"start one: dask worker {settings.address}; its tasks wait until then"
            )
        ]
    return []


def _notes_about_files(settings: "BlobSettings") -> list[str]:
    """Return a note where the database may be of several machines, and files are of this one."""
    from assent.store.settings import Settings

    if settings.blobs is not None or Settings().database_url is None:
        return []
    return [
        f"no store of files is named here: they are kept in {settings.place}, which other machines do not see; "
        "set ASSENT_BLOBS for servers and workers"
    ]
