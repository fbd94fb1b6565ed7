"""Mutants: changes to the code that some test must notice. `make mutants` applies each, and names those that survive.

`mutants.yaml` holds them: a file, the text before and after, and the test that must turn red. Each runs in a copy of
the tree, so that several run at once and nothing of the working tree is touched.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = Path(__file__).with_name("mutants.yaml")
COPIED: Final = ("src", "tests", "docs", "examples", "pyproject.toml", "README.md", "Makefile")
TIMEOUT_S: Final = 900

PASSED, FAILED = 0, 1
"""What pytest exits with; everything else means that the test did not run."""


@dataclass(frozen=True)
class Mutant:
    """One change, and the test that must notice it."""

    id: str
    file: str
    before: str
    after: str
    test: str
    why: str

    def apply(self, tree: Path) -> None:
        """Make the change; raise `ValueError` where the text is not there exactly once."""
        path = tree / self.file
        text = path.read_text()
        if (found := text.count(self.before)) != 1:
            raise ValueError(f"{self.id}: expected the text once in {self.file}, found it {found} times")
        path.write_text(text.replace(self.before, self.after))


def read_mutants(path: Path = LIST) -> list[Mutant]:
    mutants = [Mutant(**found) for found in yaml.safe_load(path.read_text())]
    ids = [mutant.id for mutant in mutants]
    if repeated := {id for id in ids if ids.count(id) > 1}:
        raise ValueError(f"ids are used once, these are not: {', '.join(sorted(repeated))}")
    return mutants


@contextmanager
def copy_of_tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="assent-mutant-") as folder:
        for name in COPIED:
            source, target = ROOT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            else:
                shutil.copy(source, target)
        yield Path(folder)


def run_tests(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code for these tests of a tree, and what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def try_mutant(mutant: Mutant) -> tuple[Mutant, str, str]:
    """The mutant, what became of it, and what was printed where it was not noticed."""
    with copy_of_tree() as tree:
        try:
            mutant.apply(tree)
            code, printed = run_tests(tree, [mutant.test])
        except (ValueError, OSError, subprocess.TimeoutExpired) as error:
            return mutant, "broken", str(error)
    verdict = {PASSED: "survived", FAILED: "noticed"}.get(code, "broken")
    return mutant, verdict, "" if verdict == "noticed" else printed[-2_000:]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="ID", help="this mutant; may be given several times"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many run at once")
    given = parser.parse_args(arguments)
    mutants = [mutant for mutant in read_mutants() if not given.only or mutant.id in given.only]
    if missing := set(given.only or ()) - {mutant.id for mutant in mutants}:
        parser.error(f"no such mutant: {', '.join(sorted(missing))}")
    with copy_of_tree() as tree:
        # A test that is red by itself would notice everything.
        code, printed = run_tests(tree, sorted({mutant.test for mutant in mutants}))
    if code != PASSED:
        print(printed[-4_000:], "\nThe tests must be green before anything is changed.", sep="")
        return 2
    with ThreadPoolExecutor(given.jobs) as pool:
        results = []
        for mutant, verdict, printed in pool.map(try_mutant, mutants):
            print(f"{verdict:9} {mutant.id:6} {mutant.file}  {mutant.test}\n{printed}".rstrip(), flush=True)
            results.append(verdict)
    print(", ".join(f"{results.count(verdict)} {verdict}" for verdict in ("noticed", "survived", "broken")))
    return 0 if set(results) <= {"noticed"} else 1


if __name__ == "__main__":
    sys.exit(main())
