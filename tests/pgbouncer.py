"""A real PgBouncer in transaction mode before the tests' server.

The program that is installed is used. Otherwise Debian's packages of it are fetched once, by apt and without root, into
a folder that git ignores. A machine that has neither fails these tests: nothing about a pooler is taken on trust.
"""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

FETCHED: Final = Path(__file__).parents[1] / ".pgbouncer"
PACKAGES: Final = ("pgbouncer", "libc-ares2", "libevent-2.1-7")
START_TIMEOUT_S: Final = 20.0

CONFIGURATION: Final = """
[databases]
* = host={host} port={port} user={role}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
ignore_startup_parameters = {ignored}
logfile = {folder}/pgbouncer.log
pidfile =
{user}
"""
ROOT: Final = 0


def program() -> tuple[Path, dict[str, str]]:
    """PgBouncer, and the environment that it needs; fetched where it is not installed."""
    installed = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if installed is not None:
        return Path(installed), {}
    found = FETCHED / "usr/sbin/pgbouncer"
    FETCHED.mkdir(exist_ok=True)
    with (FETCHED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of pytest ask at once
        if not found.exists():
            _fetch(FETCHED)
    libraries = sorted({str(each.parent) for each in FETCHED.glob("usr/lib/**/*.so*")})
    return found, {"LD_LIBRARY_PATH": ":".join(libraries)}


def _fetch(folder: Path) -> None:
    """Unpack Debian's packages; the lists of a new machine are empty, and only root may renew them."""
    assert shutil.which("apt-get"), "these tests need PgBouncer: install it, and put it on the PATH"
    download = ["apt-get", "-q", "download", *PACKAGES]
    if subprocess.run(download, cwd=folder, capture_output=True, check=False).returncode:
        subprocess.run(["apt-get", "-q", "update"], check=False, capture_output=True)
        subprocess.run(download, cwd=folder, check=True)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)


@contextmanager
def pgbouncer_before(
    url: str, folder: Path, *, pool_size: int = 4, ignored: str = "extra_float_digits"
) -> Iterator[str]:
    """A running PgBouncer; yields the URL of the same database by way of it.

    What it ignores at start-up is by default what its documentation tells every driver to have ignored.
    """
    parts, more = urlsplit(url), parse_qs(urlsplit(url).query)
    host = more["host"][0] if "host" in more else parts.hostname or "127.0.0.1"
    port = more["port"][0] if "port" in more else str(parts.port or 5432)
    listen_port = _free_port()
    own = folder / f"pgbouncer-{listen_port}"
    own.mkdir()
    # It gives up root's rights, and writes its log there; a temporary folder lets no other account pass.
    own.chmod(0o777)
    folder.chmod(folder.stat().st_mode | 0o011)
    configuration = own / "pgbouncer.ini"
    user = f"user = {_user_of(host)}" if os.getuid() == ROOT else ""
    given = {
        "host": host,
        "port": port,
        "listen_port": listen_port,
        "pool_size": pool_size,
        "role": parts.username,
    }
    configuration.write_text(CONFIGURATION.format(**given, ignored=ignored, folder=own, user=user))
    found, environment = program()
    running = subprocess.Popen(
        [str(found), "-q", str(configuration)],
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_until_it_listens(running, listen_port, own)
        yield f"postgresql://{parts.username}@127.0.0.1:{listen_port}{parts.path}?sslmode=disable"
    finally:
        running.send_signal(signal.SIGINT)
        try:
            running.wait(5)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        if running.stderr is not None:
            running.stderr.close()


def _user_of(host: str) -> str:
    """Who runs the server, for the socket may be open to that user only."""
    uid = Path(host).stat().st_uid if host.startswith("/") else ROOT
    return pwd.getpwuid(uid).pw_name if uid != ROOT else "nobody"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_until_it_listens(running: "subprocess.Popen[str]", port: int, folder: Path) -> None:
    until_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until_s:
        if running.poll() is not None:
            log = folder / "pgbouncer.log"
            said = running.stderr.read() if running.stderr is not None else ""
            raise AssertionError(f"PgBouncer ended: {said} {log.read_text() if log.exists() else ''}")
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("PgBouncer does not listen")
