"""Behind PgBouncer in transaction mode, as it is delivered: everything works, and what cannot is said."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from assent.app import App
from assent.runtime import Runtime
from assent.store.database import Database
from assent.store.listen import DEAF
from assent.store.migrate import status
from assent.store.settings import Settings
from assent.store.upkeep import ensure_partitions
from assent.worker.duty import WorkerContext
from assent.worker.supervisor import Supervisor, duties
from tests.authored import END, arrows, script
from tests.pgbouncer import pgbouncer_before
from tests.postgres import SETTINGS
from tests.workers import Runs, with_options
from tests.world import ANN, ORG, publish_steps, rows

WAIT_MAX_S = 120.0
IGNORED = "extra_float_digits,jit,plan_cache_mode,statement_timeout,lock_timeout,idle_in_transaction_session_timeout"
"""What an administrator has to have ignored where only the pooler's URL is given."""


@pytest.fixture
def pooled_url(database_url: str, run_dir: Path) -> Iterator[str]:
    with pgbouncer_before(database_url, run_dir) as url:
        yield url


def through(direct_url: str) -> Settings:
    return SETTINGS.replace(direct_database_url=direct_url, prepared_statements_max=0)


@pytest.fixture
async def pooled(pooled_url: str, database_url: str) -> AsyncIterator[Database]:
    database = await Database.open(pooled_url, settings=through(database_url))
    yield database
    await database.close()


def test_direct_url_says_that_the_other_goes_through_a_pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no statement is kept prepared, which PgBouncer before 1.21 loses; unless a number is given."""
    monkeypatch.setenv("ASSENT_DATABASE_URL", "postgresql://pooler/assent")
    assert Settings().prepared_statements_max == 500
    monkeypatch.setenv("ASSENT_DIRECT_DATABASE_URL", "postgresql://database/assent")
    settings = Settings()
    assert settings.prepared_statements_max == 0
    assert settings.is_pooled("postgresql://pooler/assent")
    assert not settings.is_pooled("postgresql://database/assent")
    monkeypatch.setenv("ASSENT_PREPARED_STATEMENTS_MAX", "100")
    assert Settings().prepared_statements_max == 100


@pytest.mark.parametrize("org_id", [ORG, None], ids=["org", "owner"])
async def test_parameters_are_set_in_each_transaction(pooled: Database, org_id: str | None) -> None:
    names = (
        "jit",
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "plan_cache_mode",
    )
    async with pooled.transaction(org_id) as connection:
        found = {name: await connection.fetchval(f"SHOW {name}") for name in names}
    assert found == {
        "jit": "off",
        "statement_timeout": _shown(SETTINGS.statement_timeout_ms),
        "lock_timeout": _shown(SETTINGS.lock_timeout_ms),
        "idle_in_transaction_session_timeout": _shown(SETTINGS.idle_in_transaction_timeout_ms),
        "plan_cache_mode": "force_custom_plan",
    }
    async with pooled.transaction(org_id, plans="kept") as connection:
        kept = await connection.fetchval("SHOW plan_cache_mode")
    assert kept == ("force_generic_plan" if org_id is not None else "force_custom_plan")


def _shown(milliseconds: int) -> str:
    if milliseconds % 60_000 == 0:
        return f"{milliseconds // 60_000}min"
    return f"{milliseconds // 1_000}s" if milliseconds % 1_000 == 0 else f"{milliseconds}ms"


async def test_nothing_of_a_transaction_is_left_on_the_servers_connection(
    pooled: Database, pooled_url: str
) -> None:
    """The next client that gets it, with another program behind it, finds it as it was."""
    async with pooled.transaction(ORG) as connection:
        await connection.fetchval("SELECT 1")
    other = await asyncpg.connect(pooled_url, statement_cache_size=0)
    try:
        for _ in range(8):
            row = await other.fetchrow(
                "SELECT current_setting('role') AS role, current_setting('assent.org_id', true) AS org,"
                " current_setting('jit') AS jit"
            )
            assert (row["role"], row["org"] or None, row["jit"]) == ("none", None, "on")
    finally:
        await other.close()


async def test_documents_and_flows_go_on_with_fewer_connections_than_clients(
    app: App, pooled: Database, runtime: Runtime, database: Database
) -> None:
    """Thirty commands at once and a worker share four connections of the server; the worker hears of each event."""
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    behind, runs = app.runtime(pooled), Runs()
    place = with_options(WorkerContext(pooled, runtime=behind), events_interval_ms=86_400_000)
    supervisor = Supervisor(pooled, duties(place, ["events"]), place.options, [runs])
    working = asyncio.create_task(supervisor.run())
    await runs.next()
    await runs.next()
    await asyncio.gather(*(behind.org(ORG, ANN).instances.start_many("quick", [{}]) for _ in range(30)))
    done = 0
    async with asyncio.timeout(WAIT_MAX_S):
        while done < 30:
            run = await runs.next()
            assert run.error is None
            done += run.done.count
    supervisor.stop()
    await working
    found = await rows(database, "workflow_instances")
    assert [row["status"] for row in found] == ["completed"] * 30


async def test_migration_goes_to_the_database_itself(empty_database_url: str, run_dir: Path) -> None:
    """Twice at once through the pooler: neither waits for a lock that the other has left on a connection."""
    with pgbouncer_before(empty_database_url, run_dir) as url:
        environment = {"ASSENT_DIRECT_DATABASE_URL": empty_database_url, "ASSENT_DATABASE_URL": url}
        first = await asyncio.gather(*(_run("migrate", environment) for _ in range(2)))
        again = await _run("migrate", environment)
    assert [code for code, _ in (*first, again)] == [0, 0, 0]
    assert (await status(empty_database_url)).pending == []


async def test_partitions_are_made_over_a_session_of_their_own(pooled: Database) -> None:
    assert await ensure_partitions(pooled, 9) > 0


async def test_worker_whose_notifications_do_not_arrive_says_so_and_works_by_polling(
    app: App, database: Database, database_url: str, run_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the pooler's URL is known: the log says what to set, and events are processed at the next poll."""
    await publish_steps(database, "quick", [script("one"), END], arrows("one", "end"))
    with pgbouncer_before(database_url, run_dir, ignored=IGNORED) as url:
        settings = SETTINGS.replace(prepared_statements_max=0)
        behind = await Database.open(url, settings=settings)
        runtime, runs = app.runtime(behind), Runs()
        place = with_options(WorkerContext(behind, runtime=runtime), events_interval_ms=50)
        supervisor = Supervisor(behind, duties(place, ["events"]), place.options, [runs])
        with caplog.at_level(logging.WARNING):
            working = asyncio.create_task(supervisor.run())
            async with asyncio.timeout(WAIT_MAX_S):
                while not [record for record in caplog.records if record.message == DEAF]:
                    await runs.next()
        (record,) = [record for record in caplog.records if record.message == DEAF]
        assert "ASSENT_DIRECT_DATABASE_URL" in record.__dict__["remedy"]
        await runtime.org(ORG, ANN).instances.start_many("quick", [{}])
        async with asyncio.timeout(WAIT_MAX_S):
            while (await runs.next()).done.count == 0:
                pass
        supervisor.stop()
        await working
        await behind.close()


async def test_listener_of_a_direct_url_hears_and_does_not_warn(
    pooled: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with pooled.listen("events") as listener:
            async with pooled.transaction(None) as connection:
                await connection.execute("SELECT pg_notify('events', 'said')")
            async with asyncio.timeout(WAIT_MAX_S):
                assert await listener.hear() == {"events": {"said"}}
    assert [record.message for record in caplog.records] == []


async def test_doctor_finds_that_notifications_do_not_arrive(database_url: str, run_dir: Path) -> None:
    with pgbouncer_before(database_url, run_dir, ignored=IGNORED) as url:
        alone = {"ASSENT_DATABASE_URL": url, "ASSENT_PREPARED_STATEMENTS_MAX": "0"}
        _, said = await _run("doctor", alone, "--json")
        named = [finding for finding in json.loads(said)["findings"] if finding["check"] == "notifications"]
        assert ["ASSENT_DIRECT_DATABASE_URL" in finding["remedy"] for finding in named] == [True]
        both = {"ASSENT_DATABASE_URL": url, "ASSENT_DIRECT_DATABASE_URL": database_url}
        _, said = await _run("doctor", both, "--json")
        assert [f for f in json.loads(said)["findings"] if f["check"] == "notifications"] == []


async def _run(command: str, environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    program = Path(sys.executable).with_name("assent")
    process = await asyncio.create_subprocess_exec(
        str(program), command, *arguments, env=os.environ | environment, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(WAIT_MAX_S):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()
