"""docs/backup.md, command by command: dump and restore, going back to a moment, a standby and its promotion."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from assent.store.database import Database
from assent.store.embedded.cluster import OWNER, SUPERUSER, Cluster
from assent.store.embedded.programs import wheel_programs
from assent.store.embedded.server import EmbeddedServer
from assent.store.errors import StoreError
from assent.store.migrate import migrate
from tests.postgres import SETTINGS
from tests.processes.commands import ROOT

pytestmark = pytest.mark.long

GUIDE = (ROOT / "docs/backup.md").read_text(encoding="utf-8")
DUMP, RESTORE, BASE_BACKUP, GO_BACK, STANDBY, PROMOTE = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
(CONFIGURATION,) = re.findall(r"```ini\n(.*?)```", GUIDE, re.DOTALL)


@dataclass
class Shell:
    """Runs blocks of the guide as an operator would, who is not root."""

    cluster: Cluster
    """Whose account runs the server's programs."""
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, block: str, *, as_server: bool = False) -> str:
        """Run a block to its end, and return what it said; any failure in it is a failure here."""
        path = f"{wheel_programs()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        account = self.cluster.account.options() if as_server else {}
        # Not pipes: a server that inherits one keeps it open, and we would wait for its end.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                ["bash", "-euc", block],
                cwd="/" if as_server else self.folder,
                env={"PATH": path, "HOME": str(self.folder), "LC_ALL": "C", **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=100,
                **account,
            )
            said.seek(0)
            text = said.read()
        assert done.returncode == 0, "\n".join([text, *self._logs()])
        return text

    def _logs(self) -> list[str]:
        folders = [Path(self.variables[name]) for name in ("RESTORED", "STANDBY") if name in self.variables]
        return [log.read_text() for folder in folders if (log := folder / "server.log").exists()]


@pytest.fixture
def folder(run_dir: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=run_dir, ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def shell(folder: Path) -> Iterator[Shell]:
    """A server that archives its WAL, with a database of ours, and a shell beside it."""
    cluster = Cluster(folder / "primary", wheel_programs())
    cluster.make(fast=False)
    shared = folder / "shared"
    (shared / "wal").mkdir(parents=True)
    cluster.account.own(shared, shared / "wal")
    with (cluster.path / "assent.conf").open("a") as settings:
        settings.write(CONFIGURATION.replace("$WAL", str(shared / "wal")))
    postmaster = cluster.start()
    shell = Shell(cluster, folder)
    places = {"BASE": "base", "WAL": "wal", "RESTORED": "restored", "STANDBY": "standby"}
    shell.variables = {name: str(shared / place) for name, place in places.items()} | {
        "PRIMARY": str(cluster.path),
        "ASSENT_DATABASE_URL": postmaster.url(OWNER, "assent"),
        "REPLICATION_URL": postmaster.url(SUPERUSER, "postgres"),
    }
    shell.run(f'createdb --maintenance-db="{postmaster.url(OWNER, "postgres")}" assent')
    try:
        yield shell
    finally:
        for path in (cluster.path, shared / "restored", shared / "standby"):
            if (path / "postmaster.pid").exists():
                Cluster(path, wheel_programs()).stop()


def at(folder: str) -> str:
    """The database of a server that runs in a folder."""
    return f"postgresql://{OWNER}@/assent?host={folder}&port=5432"


async def note(url: str, *names: str) -> None:
    database = await Database.open(url, settings=SETTINGS)
    async with database.transaction(None) as connection:
        for name in names:
            await connection.execute("INSERT INTO assent.orgs (org_id, name) VALUES ($1, $1)", name)
    await database.close()


async def notes(url: str) -> list[str]:
    """What the database knows, read as the engine would: with its role, under row security."""
    database = await Database.open(url, settings=SETTINGS)
    found = []
    try:
        for name in ("before", "after", "later"):
            async with database.transaction(name) as connection:
                found += [row["org_id"] for row in await connection.fetch("SELECT org_id FROM assent.orgs")]
        return found
    finally:
        await database.close()


async def test_dump_is_restored_on_a_server_that_gets_the_roles_first(shell: Shell) -> None:
    url = shell.variables["ASSENT_DATABASE_URL"]
    await migrate(url)
    await note(url, "before")
    shell.run(DUMP)
    await note(url, "after")
    with EmbeddedServer.start(shell.folder / "new", fast=True) as new:
        shell.variables |= {"NEW_SERVER_URL": new.url("postgres"), "NEW_DATABASE_URL": new.url("assent")}
        said = shell.run(RESTORE)
        assert "all is well" in said
        assert "up to date" in said
        assert await notes(new.url("assent")) == ["before"]


async def test_restore_without_the_roles_is_named_and_repaired(shell: Shell) -> None:
    url = shell.variables["ASSENT_DATABASE_URL"]
    await migrate(url)
    await note(url, "before")
    shell.run(DUMP)
    with EmbeddedServer.start(shell.folder / "new", fast=True) as new:
        shell.variables |= {"NEW_SERVER_URL": new.url("postgres"), "NEW_DATABASE_URL": new.url("assent")}
        forgetful = [line for line in RESTORE.splitlines() if line.startswith(("createdb", "pg_restore"))]
        said = shell.run("\n".join(forgetful).replace("--exit-on-error ", "") + " || true")
        assert 'role "assent_engine" does not exist' in said
        shell.variables["ASSENT_DATABASE_URL"] = new.url("assent")
        for command in ("migrate", "health", "worker --once", "doctor"):
            said = shell.run(f"! assent {command}")
            assert "GRANT" in said, command
            assert "Traceback" not in said, command
        shell.run('{ assent doctor || true; } | psql --set=ON_ERROR_STOP=1 "$NEW_DATABASE_URL"')
        assert "all is well" in shell.run("assent doctor")
        assert await notes(new.url("assent")) == ["before"]


async def test_server_goes_back_to_a_moment(shell: Shell) -> None:
    url = shell.variables["ASSENT_DATABASE_URL"]
    await migrate(url)
    shell.run(BASE_BACKUP, as_server=True)
    await note(url, "before")
    read_clock = 'psql --no-align --tuples-only "$ASSENT_DATABASE_URL" -c "SELECT clock_timestamp()"'
    shell.variables["MOMENT"] = shell.run(read_clock).strip()
    await note(url, "after")
    shell.run('psql "$REPLICATION_URL" -c "SELECT pg_switch_wal()"')
    await archived(shell)
    Cluster(shell.cluster.path, wheel_programs()).stop()
    shell.run(GO_BACK, as_server=True)
    restored = at(shell.variables["RESTORED"])
    assert await notes(restored) == ["before"]
    shell.variables["ASSENT_DATABASE_URL"] = restored
    assert "all is well" in shell.run("assent doctor")
    await note(restored, "later")
    assert await notes(restored) == ["before", "later"]


async def until(shell: Shell, statement: str, wanted: str) -> None:
    """Wait until the first server returns this."""
    connection = await asyncpg.connect(shell.variables["REPLICATION_URL"])
    async with asyncio.timeout(60):
        while str(await connection.fetchval(statement)) != wanted:
            pass
    await connection.close()


async def archived(shell: Shell) -> None:
    """Wait until the server has archived the WAL that was switched."""
    last = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
    await until(shell, last, "0")


async def test_standby_is_promoted_and_our_processes_find_it(shell: Shell) -> None:
    url = shell.variables["ASSENT_DATABASE_URL"]
    await migrate(url)
    shell.run(STANDBY, as_server=True)
    folders = f"{shell.variables['PRIMARY']},{shell.variables['STANDBY']}"
    both = f"postgresql://{OWNER}@/assent?host={folders}&port=5432,5432&target_session_attrs=read-write"
    database = await Database.open(both, settings=SETTINGS)

    async def write(name: str) -> None:
        async with database.transaction(None) as connection:
            await connection.execute("INSERT INTO assent.orgs (org_id, name) VALUES ($1, $1)", name)

    await write("before")
    caught_up = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"
    await until(shell, caught_up, "1")
    shell.run(PROMOTE, as_server=True)
    async with asyncio.timeout(60):
        while True:
            try:
                await write("after")
            except (OSError, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError):
                continue  # connections to the old primary are noticed one by one
            break
    await database.close()
    assert await notes(at(shell.variables["STANDBY"])) == ["before", "after"]
    shell.variables["ASSENT_DATABASE_URL"] = both
    assert "all is well" in shell.run("assent doctor")
