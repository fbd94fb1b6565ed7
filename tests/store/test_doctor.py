"""`assent doctor`: each thing that can be wrong is found, said with what to do, and repaired by doing that."""

import json
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from assent.store.checkup import Checkup, Finding, PoolUse, examine_database
from assent.store.clock import MovedClock
from assent.store.connection import Connection, connect
from assent.store.database import Database
from assent.store.migrate import code_version, migrate
from assent.store.upkeep import ensure_partitions
from tests.postgres import SETTINGS, START, superuser_url
from tests.rows import insert_step
from tests.upgrades.releases import ReleaseFolder

POOL = PoolUse(connections_max=10, lanes=6)
PRESENT = ReleaseFolder.installed()


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """The owner's connection, at the time of the test's clock."""
    connection = await connect(database.url, SETTINGS)
    await set_time(connection, START)
    yield connection
    await connection.close()


@pytest.fixture
async def live(empty_database_url: str) -> AsyncIterator[Database]:
    """A database of today, as an operator has it."""
    await migrate(empty_database_url)
    database = await Database.open(empty_database_url)
    yield database
    await database.close()


async def set_time(connection: Connection, at: datetime) -> None:
    await connection.execute("SELECT set_config('assent.now', $1, false)", at.isoformat())


def problems(checkup: Checkup) -> dict[str, str]:
    return {finding.check: finding.problem for finding in checkup.findings}


def doctor(url: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return PRESENT.run("doctor", *arguments, url=url, **variables)


async def test_healthy_database_has_no_findings(connection: Connection) -> None:
    found = await examine_database(connection, POOL)
    assert (found.findings, found.is_healthy) == ([], True)


async def test_command_says_that_all_is_well_and_ends_with_zero(live: Database) -> None:
    mail = {"ASSENT_SMTP_HOST": "mail.example", "ASSENT_SMTP_SENDER": "assent@acme.example"}
    said = doctor(live.url, **mail)
    assert (said.returncode, said.stderr) == (0, "")
    assert (
        said.stdout == "-- all is well: roles, grants, schema, extensions, clock, pool, partitions, timers\n"
    )


async def test_missing_mail_server_is_a_note_and_no_finding(live: Database) -> None:
    said = json.loads(doctor(live.url, "--json", ASSENT_SMTP_HOST="mail.example").stdout)
    assert said["healthy"]
    assert "ASSENT_SMTP_SENDER" in said["notes"][-1]


async def test_files_on_this_machine_alone_are_a_note_and_no_finding(live: Database, tmp_path: Path) -> None:
    here = {"ASSENT_BLOBS": "", "ASSENT_DATA_DIR": str(tmp_path / "data")}
    said = json.loads(doctor(live.url, "--json", **here).stdout)
    assert said["healthy"]
    (note,) = [note for note in said["notes"] if "ASSENT_BLOBS" in note]
    assert str(tmp_path / "data-files") in note


def test_database_without_the_schema_is_sent_to_migrate(empty_database_url: str) -> None:
    said = json.loads(doctor(empty_database_url, "--json").stdout)
    (finding,) = said["findings"]
    assert (said["healthy"], finding["check"], finding["remedy"]) == (False, "schema", "run `assent migrate`")
    assert finding["problem"].startswith("the database lacks 0001_baseline")


async def test_schema_that_is_too_old_or_too_new_is_said(connection: Connection, database: Database) -> None:
    newest = code_version()
    row = (
        "INSERT INTO assent.schema_migrations (version, name, checksum, oldest_code) VALUES ($1, $2, 'x', $3)"
    )
    await connection.execute(row, newest.version + 1, "more", newest.version)
    found = await examine_database(connection, POOL)
    assert found.notes == [
        f"migration {newest.version + 1:04}_more is of a newer version, which this one can work with"
    ]
    assert found.is_healthy
    await connection.execute(row, newest.version + 2, "less", newest.version + 2)
    assert "of a newer version of Assent" in problems(await examine_database(connection, POOL))["schema"]
    await connection.execute("DELETE FROM assent.schema_migrations WHERE version >= $1", newest.version)
    assert problems(await examine_database(connection, POOL)) == {"schema": f"the database lacks {newest}"}


@pytest.mark.parametrize(
    ("off", "said"),
    [
        (timedelta(hours=1), "3600 s ahead of"),
        (timedelta(hours=-1), "3600 s behind"),
        (timedelta(seconds=-90), "90 s behind"),
    ],
)
async def test_clock_that_is_off_is_found(connection: Connection, off: timedelta, said: str) -> None:
    found = await examine_database(connection, POOL, now=lambda: datetime.now(UTC) + off)
    assert problems(found) == {"clock": f"the clock of this machine is {said} the database's"}


async def test_clock_that_is_a_little_off_is_none_of_our_business(connection: Connection) -> None:
    found = await examine_database(connection, POOL, now=lambda: datetime.now(UTC) - timedelta(seconds=1))
    assert found.is_healthy


async def test_pool_that_its_lanes_use_up_or_that_the_server_cannot_serve_is_found(
    connection: Connection,
) -> None:
    assert problems(await examine_database(connection, PoolUse(6, 6))) == {
        "pool": "the lanes of a worker hold 6 connections, the pool has 6 for all"
    }
    connections = int(await connection.fetchval("SHOW max_connections"))
    (finding,) = (await examine_database(connection, PoolUse(connections, 6))).findings
    # Three are the superuser's, and a process has two outside of its pool.
    assert finding.problem == (
        f"this process may open {connections + 2} connections, the server gives {connections - 3} to all together"
    )


async def test_command_reads_the_pool_from_the_environment(live: Database) -> None:
    said = doctor(live.url, ASSENT_POOL_CONNECTIONS_MAX="3")
    assert said.returncode == 1
    assert said.stdout.splitlines()[:2] == [
        "-- pool: the lanes of a worker hold 6 connections, the pool has 3 for all",
        "-- to do: raise ASSENT_POOL_CONNECTIONS_MAX, or lower ASSENT_WORKER_EVENTS_LANES or ASSENT_WORKER_TASKS_LANES",
    ]


async def test_months_that_nobody_prepared_are_found_and_made(
    connection: Connection, database: Database, clock: MovedClock
) -> None:
    clock.advance("150d")
    await set_time(connection, clock.now())
    found = problems(await examine_database(connection, POOL))
    assert "workflow_step_executions_2026_07, workflow_step_executions_2026_08" in found["partitions"]
    await insert_step(connection, created_at=clock.now())
    said = [
        one.problem
        for one in (await examine_database(connection, POOL)).findings
        if one.check == "partitions"
    ]
    assert said[1:] == ["rows of months that were not prepared are in workflow_step_executions_default"]
    await ensure_partitions(database)
    assert "partitions" not in problems(await examine_database(connection, POOL))


@pytest.mark.without_twin("the twin has timers too")
async def test_timer_that_no_worker_took_is_found(connection: Connection) -> None:
    await insert_step(connection, resume_at=START + timedelta(seconds=30))
    for after_s, healthy in ((29, True), (89, True), (91, False)):
        await set_time(connection, START + timedelta(seconds=after_s))
        found = await examine_database(connection, POOL)
        assert found.is_healthy is healthy, after_s
    assert problems(found) == {"timers": "a timer has been due for 61 s, and no worker took it"}


async def test_language_that_is_missing_is_found(empty_database_url: str) -> None:
    connection = await connect(superuser_url(empty_database_url), SETTINGS)
    await connection.execute("DROP EXTENSION plpgsql")
    found = await examine_database(connection, POOL)
    await connection.close()
    missing = Finding(
        "extensions",
        "the language plpgsql is missing in this database",
        "have an administrator run CREATE EXTENSION plpgsql in this database",
    )
    assert missing in found.findings


async def test_output_is_sql_that_repairs_the_grants(live: Database) -> None:
    connection = await asyncpg.connect(live.url)
    await connection.execute("REVOKE SELECT ON assent.members FROM assent_engine")
    said = doctor(live.url, ASSENT_POOL_CONNECTIONS_MAX="3")
    assert said.returncode == 1
    await connection.execute(said.stdout)
    await connection.close()
    assert doctor(live.url).returncode == 0
    assert await migrate(live.url) == []
