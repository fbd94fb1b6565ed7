"""Runs the tests that touch the database on an installed PostgreSQL: `python -m tests.on_system_postgres 15`.

Further arguments go to pytest; without a path among them, the rooms that depend on the server are tested.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from assent.store.cluster import OWNER, Cluster
from tests.postgres import fastest_folder

ROOMS = ("tests/store", "tests/kernel", "tests/runtime", "tests/worker", "tests/races", "tests/invariants")


def main(version: int, arguments: list[str]) -> int:
    programs = next((folder for folder in _candidates(version) if _version(folder) == version), None)
    if programs is None:
        print(
            f"PostgreSQL {version} is not installed here: install it, or put its pg_ctl on the PATH.",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="assent-system-", dir=fastest_folder()) as folder:
        cluster = Cluster(Path(folder) / "cluster", programs)
        cluster.make(fast=True)
        try:
            url = cluster.start().url(OWNER, "postgres")
            return _run_pytest(url, arguments)
        finally:
            cluster.stop()


def _candidates(version: int) -> Iterator[Path]:
    """Where distributions, installers and people put PostgreSQL's programs."""
    yield Path(f"/usr/lib/postgresql/{version}/bin")
    yield Path(f"/usr/pgsql-{version}/bin")
    yield Path(f"/opt/homebrew/opt/postgresql@{version}/bin")
    if pg_config := shutil.which("pg_config"):
        yield Path(
            subprocess.run([pg_config, "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
        )
    if pg_ctl := shutil.which("pg_ctl"):
        yield Path(pg_ctl).resolve().parent


def _version(programs: Path) -> int | None:
    if not all((programs / name).exists() for name in ("postgres", "initdb", "pg_ctl")):
        return None
    told = subprocess.run(
        [programs / "postgres", "--version"], check=True, capture_output=True, text=True
    ).stdout
    match = re.search(r"\(PostgreSQL\) (\d+)", told)
    return int(match[1]) if match else None


def _run_pytest(url: str, arguments: list[str]) -> int:
    paths = [] if any(Path(argument.split("::")[0]).exists() for argument in arguments) else _rooms()
    command = [sys.executable, "-m", "pytest", *paths, *arguments]
    return subprocess.run(command, check=False, env=os.environ | {"ASSENT_TEST_DATABASE_URL": url}).returncode


def _rooms() -> list[str]:
    return [room for room in ROOMS if list(Path(room).rglob("test_*.py"))]


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        sys.exit("Usage: python -m tests.on_system_postgres <major version> [arguments for pytest]")
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
