"""Apply the mutants of `mutants.yaml` one by one, run the test that must notice each, and report the survivors.

A mutant is one edit of the code that a careless change could make. Each job has a copy of the tree and a PostgreSQL of
its own, which serve all of its mutants: the working tree is never touched, and a run pays for neither a new server
nor new bytecode. docs/proof.md says how to add a mutant.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Self

import asyncpg
import yaml

from tests.postgres import folder_of_this_run, server_at

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = Path(__file__).with_name("mutants.yaml")
PROOF: Final = ROOT / "docs" / "proof.md"
COPIED: Final = (
    "src",
    "tests",
    "docs",
    "examples",
    "bench",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "requirements",
    "Makefile",
)
TIMEOUT_S: Final = 600
OUTPUT_CHARS_MAX: Final = 3_000

BEGIN: Final = "<!-- mutants: begin (written by `make mutants ARGS=--record`) -->"
END: Final = "<!-- mutants: end -->"

PASSED, FAILED = 0, 1
"""Exit codes of pytest; each other one means that the test did not run."""

NOTICED, SURVIVED, BROKEN = "noticed", "survived", "broken"

_TEMPLATES: Final = """
SELECT format('DROP DATABASE IF EXISTS %I WITH (FORCE)', datname)
  FROM pg_database WHERE datname LIKE 'assent\\_template\\_%' AND datname <> ALL ($1::text[])
"""


@dataclass(frozen=True)
class Mutant:
    """One edit, and the test that must notice it."""

    id: str
    file: str
    before: str
    after: str
    test: str
    why: str
    own_server: bool = False
    """Whether the edit changes roles or the server itself, which other mutants must not inherit."""

    @property
    def room(self) -> str:
        """The part of the product that the edit is in."""
        place = Path(self.file).relative_to("src/assent")
        return "schema" if "schema" in place.parts else place.parts[0].removesuffix(".py")

    def applied_to(self, text: str) -> str:
        """Return the file's text with the edit; raise `ValueError` unless `before` is there exactly once."""
        if (found := text.count(self.before)) != 1:
            raise ValueError(f"{self.id}: expected `before` once in {self.file}, found it {found} times")
        return text.replace(self.before, self.after)


@dataclass(frozen=True)
class Result:
    """What became of a mutant: the verdict, the test that failed and why, and pytest's output unless it was noticed."""

    mutant: Mutant
    verdict: str
    failed: str = ""
    reason: str = ""
    output: str = ""
    seconds: float = 0.0


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of the list; raise `ValueError` if an id is used twice."""
    mutants = [Mutant(**entry) for entry in yaml.safe_load(path.read_text())]
    if repeated := [id for id, number in Counter(m.id for m in mutants).items() if number > 1]:
        raise ValueError(f"expected each id once, found these more often: {', '.join(repeated)}")
    return mutants


@dataclass(frozen=True)
class Bench:
    """One job's copy of the tree and its server."""

    tree: Path
    url: str

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Self]:
        with ExitStack() as stack:
            tree = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assent-mutants-")))
            for name in COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
                else:
                    shutil.copy(source, tree / name)
            folder = stack.enter_context(folder_of_this_run())
            yield cls(tree, stack.enter_context(server_at(folder / "server")))

    @contextmanager
    def with_edit(self, mutant: Mutant) -> Iterator[None]:
        """Apply a mutant, and take it back at the end."""
        path = self.tree / mutant.file
        original = path.read_text()
        self._write(path, mutant.applied_to(original))
        try:
            yield
        finally:
            self._write(path, original)

    def run(
        self, tests: Sequence[str], *, own_server: bool = False, first_only: bool = True
    ) -> tuple[int, str]:
        """Return pytest's exit code and output for these tests."""
        environment = {**os.environ, "PYTHONPATH": str(self.tree / "src")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if not own_server:
            environment["ASSENT_TEST_DATABASE_URL"] = self.url
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            *(["-x"] * first_only),
            *tests,
        ]
        done = subprocess.run(
            command,
            cwd=self.tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def templates(self) -> set[str]:
        return asyncio.run(_databases(self.url))

    def drop_templates(self, except_for: set[str]) -> None:
        """Drop the template databases that a changed migration left."""
        asyncio.run(_drop_templates(self.url, except_for))

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Bytecode is known by time and size only, and two edits may have both in common.
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            cached.unlink()


async def _databases(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        return {row[0] for row in await connection.fetch("SELECT datname FROM pg_database")}
    finally:
        await connection.close()


async def _drop_templates(url: str, except_for: set[str]) -> None:
    connection = await asyncpg.connect(url)
    try:
        for row in await connection.fetch(_TEMPLATES, sorted(except_for)):
            await connection.execute(row[0])
    finally:
        await connection.close()


def try_mutant(bench: Bench, mutant: Mutant, tests: Sequence[str] = ()) -> Result:
    """Run a mutant's test, or the given ones, with its edit."""
    started = time.monotonic()
    try:
        before = bench.templates()
        with bench.with_edit(mutant):
            code, output = bench.run(tests or [mutant.test], own_server=mutant.own_server)
        if mutant.room == "schema":
            bench.drop_templates(before)
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        return Result(mutant, BROKEN, output=str(error), seconds=time.monotonic() - started)
    verdict = {PASSED: SURVIVED, FAILED: NOTICED}.get(code, BROKEN)
    if "ERROR at setup of" in output or "ERROR collecting" in output:
        # The product no longer starts: that is no single behaviour that a test looks after.
        verdict = BROKEN
    failed = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", output, re.MULTILINE)
    reason = re.search(r"^E +(.+)$", output, re.MULTILINE)
    return Result(
        mutant,
        verdict,
        failed[1] if failed else "",
        reason[1][:160] if reason else "",
        "" if verdict == NOTICED else output[-OUTPUT_CHARS_MAX:],
        time.monotonic() - started,
    )


def run_all(
    mutants: Sequence[Mutant],
    benches: Sequence[Bench],
    tests: Sequence[str] = (),
    save: Callable[[Sequence[Result]], object] = lambda results: None,
) -> list[Result]:
    """Try the mutants, one per bench at a time; print and save each result when it is there."""
    free: SimpleQueue[Bench] = SimpleQueue()
    for bench in benches:
        free.put(bench)

    def on_a_free_bench(mutant: Mutant) -> Result:
        bench = free.get()
        try:
            return try_mutant(bench, mutant, tests)
        finally:
            free.put(bench)

    results: list[Result] = []
    with ThreadPoolExecutor(len(benches)) as pool:
        for future in as_completed([pool.submit(on_a_free_bench, mutant) for mutant in mutants]):
            result = future.result()
            results.append(result)
            _print_result(result, f"{len(results)}/{len(mutants)}")
            save(results)
    return results


def _print_result(result: Result, progress: str) -> None:
    mutant = result.mutant
    print(
        f"{progress:>7} {result.verdict:8} {mutant.id:6} {result.seconds:5.1f} s  {mutant.file}", flush=True
    )
    print(f"        {result.failed or mutant.test}  {result.reason}", flush=True)
    if result.output:
        print(result.output, flush=True)


def changed_files(commit: str) -> set[str]:
    """Return the files that differ between a commit and the working tree."""
    command = ["git", "diff", "--name-only", commit]
    return set(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())


def choose(mutants: Sequence[Mutant], only: Sequence[str], changed: str | None) -> list[Mutant]:
    """Return the mutants of these ids, and of the files that changed since a commit; all where neither is given."""
    if missing := set(only) - {mutant.id for mutant in mutants}:
        raise ValueError(f"no such mutant: {', '.join(sorted(missing))}")
    chosen = [mutant for mutant in mutants if not only or mutant.id in only]
    if changed is None:
        return chosen
    files = changed_files(changed)
    return [mutant for mutant in chosen if {mutant.file, mutant.test.partition("::")[0]} & files]


def as_json(results: Sequence[Result], commit: str) -> str:
    return json.dumps({"commit": commit, "results": [asdict(result) for result in results]}, indent=1)


def known_results(path: Path, mutants: Sequence[Mutant], commit: str) -> list[Result]:
    """Return what a file of results says of these mutants at this commit; nothing where it is of another."""
    found = json.loads(path.read_text()) if path.exists() else {}
    if found.get("commit") != commit:
        return []
    results = [Result(**{**row, "mutant": Mutant(**row["mutant"])}) for row in found["results"]]
    return [result for result in results if result.mutant in mutants]


def current_commit() -> str:
    """Return the commit of the working tree; with a mark where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def report(results: Sequence[Result], commit: str, when: datetime) -> str:
    """Return the section of docs/proof.md about a run."""
    verdicts = Counter(result.verdict for result in results)
    rooms = Counter(result.mutant.room for result in results)
    lines = [
        f"{len(results)} mutants, {when:%Y-%m-%d %H:%M} UTC, commit `{commit}`: {verdicts[NOTICED]} noticed by "
        f"their test, {verdicts[SURVIVED]} survived, {verdicts[BROKEN]} broken.",
        "",
        "| part | mutants |",
        "|---|---|",
        *(f"| {room} | {number} |" for room, number in sorted(rooms.items())),
    ]
    if missed := [result for result in results if result.verdict != NOTICED]:
        lines += ["", "| not noticed | verdict | what it would do |", "|---|---|---|"]
        lines += [f"| {r.mutant.id} | {r.verdict} | {r.mutant.why} |" for r in missed]
    return "\n".join(lines)


def record(section: str, path: Path = PROOF) -> None:
    """Write a section between the two markers of a page; the rest of the page stays as it is."""
    text = path.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"expected both markers of the mutants in {path.name}: {BEGIN} and {END}")
    path.write_text(f"{head}{BEGIN}\n{section}\n{END}{tail}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="run these mutants")
    parser.add_argument(
        "--changed", metavar="COMMIT", help="run mutants whose file or test changed since a commit"
    )
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="TEST", help="run these instead of the named test"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="mutants at a time (2)")
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests without an edit first")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="keep the results in a file; a later run of the commit goes on from it",
    )
    parser.add_argument(
        "--record", action="store_true", help="write the result of the whole list to docs/proof.md"
    )
    options = parser.parse_args(arguments)
    if options.record and (options.only or options.changed or options.tests or options.unchecked):
        parser.error("--record takes the whole list, and its tests checked first")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        mutants = choose(read_mutants(), options.only, options.changed)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    commit = current_commit()
    known = known_results(options.json, mutants, commit) if options.json and not options.tests else []
    done = {result.mutant.id for result in known}
    todo = [mutant for mutant in mutants if mutant.id not in done]

    def save(results: Sequence[Result]) -> None:
        if options.json:
            options.json.write_text(as_json([*known, *results], commit))

    results = list(known)
    if todo:
        with ExitStack() as stack:
            benches = [stack.enter_context(Bench.open()) for _ in range(min(options.jobs, len(todo)))]
            tests = options.tests or sorted({mutant.test for mutant in todo})
            if not options.unchecked and not all_green(benches, tests):
                return 2
            results += run_all(todo, benches, options.tests, save)
    order = {mutant.id: number for number, mutant in enumerate(mutants)}
    results.sort(key=lambda result: order[result.mutant.id])
    if options.record:
        record(report(results, commit, datetime.now(UTC)))
    return summarize(results)


def all_green(benches: Sequence[Bench], tests: Sequence[str]) -> bool:
    """Return whether tests pass without an edit: one that is red by itself would notice everything."""
    shares = [tests[number :: len(benches)] for number in range(len(benches))]
    with ThreadPoolExecutor(len(benches)) as pool:
        done = pool.map(
            lambda pair: pair[0].run(pair[1]) if pair[1] else (PASSED, ""), zip(benches, shares, strict=True)
        )
        red = [output for code, output in done if code != PASSED]
    for output in red:
        print(output[-OUTPUT_CHARS_MAX:], "\nThe tests must be green before anything is changed.", flush=True)
    return not red


def summarize(results: Sequence[Result]) -> int:
    """Print the counts and what was not noticed, and return the exit code."""
    verdicts = Counter(result.verdict for result in results)
    print(", ".join(f"{verdicts[verdict]} {verdict}" for verdict in (NOTICED, SURVIVED, BROKEN)))
    for result in results:
        if result.verdict != NOTICED:
            print(f"{result.verdict:8} {result.mutant.id:6} {result.mutant.file}: {result.mutant.why}")
    return 0 if verdicts[NOTICED] == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
