"""Dump a test's database and restore it into another one, with PostgreSQL's own programs."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from assent.store.embedded.programs import wheel_programs
from tests.postgres import Databases


def run_program(name: str, *arguments: str) -> None:
    """Run one of PostgreSQL's client programs to its end; any complaint of it is a failure."""
    done = subprocess.run([wheel_programs() / name, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def dump(url: str, archive: Path) -> None:
    run_program("pg_dump", "--format=custom", f"--file={archive}", url)


@asynccontextmanager
async def restored(databases: Databases, archive: Path) -> AsyncIterator[str]:
    """Inside, a new database holds what the archive does; gives its URL."""
    async with databases.fresh() as url:
        run_program("pg_restore", "--exit-on-error", f"--dbname={url}", str(archive))
        yield url
