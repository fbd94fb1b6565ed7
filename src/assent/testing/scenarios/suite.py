"""Scenarios in files: found, read, and run with the contracts, patches and flows that they use.

A scenario runs in a sandbox of its own, one step after the other, until one goes otherwise than written.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assent.app import App
from assent.compiler.declarations import DeclarationKind, kind_of
from assent.compiler.source import Source, located
from assent.model.mutation import Refused
from assent.model.problems import Invalid, Problem
from assent.testing.sandbox import Sandbox
from assent.testing.scenarios.compare import ScenarioFailure, differences
from assent.testing.scenarios.document_state import DocumentState, document_state
from assent.testing.scenarios.perform import Stage, act, rule_as_written
from assent.testing.scenarios.scenario import PlacedStep, Scenario, read_scenario
from assent.testing.scenarios.steps import ActStep, ExpectStep, ReplyStep, ResultStep, ScenarioStep
from assent.testing.sources import documents_beside, files_below, path_of, read_file, sources_of

Look = Callable[[Sandbox], Awaitable[None]]
"""Looks at what a scenario has left behind, before it is gone."""


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of a scenario."""

    scenario: str
    file: str
    line: int
    steps_done: int
    steps: int
    took_s: float
    failure: ScenarioFailure | None = None
    problems: tuple[Problem, ...] = ()
    """What kept it from running: in itself, or in the definitions that it uses."""

    @property
    def passed(self) -> bool:
        return self.failure is None and not self.problems

    def text(self) -> str:
        """Return the report of a failure, as it is printed."""
        lines = [str(problem) for problem in self.problems]
        lines += self.failure.lines() if self.failure else []
        return "\n".join([f"{self.scenario} ({self.file}:{self.line})", *(f"  {line}" for line in lines)])

    def to_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "file": self.file,
            "line": self.line,
            "passed": self.passed,
            "steps_done": self.steps_done,
            "steps": self.steps,
            "took_s": round(self.took_s, 3),
            "failure": self.failure.to_json() if self.failure else None,
            "problems": [problem.to_json() for problem in self.problems],
        }


async def run_scenario(
    scenario: Scenario,
    sources: Sequence[Source],
    app: App | None = None,
    *,
    server: str | None = None,
    look: Look | None = None,
) -> ScenarioResult:
    """Run a scenario with these definitions, for this application; `look` sees how it ended."""
    started_s = time.monotonic()
    done, failure, problems = 0, None, tuple[Problem, ...]()
    try:
        async with Sandbox(app, sources, now=scenario.now, server=server) as sandbox:
            await _settle(sandbox, scenario)
            done, failure = await _run_steps(Stage(sandbox), scenario.steps)
            if look is not None:
                await look(sandbox)
    except Invalid as invalid:
        problems = tuple(invalid.problems)
    took_s = time.monotonic() - started_s
    place = (str(scenario.file), scenario.line)
    return ScenarioResult(scenario.name, *place, done, len(scenario.steps), took_s, failure, problems)


async def _settle(sandbox: Sandbox, scenario: Scenario) -> None:
    """Make the company before the first step."""
    head = scenario.head
    await sandbox.org_settings(**head.org)
    await sandbox.people(**{name: member.model_dump() for name, member in head.people.items()})
    await sandbox.roles(**head.roles)
    await sandbox.rules(*(rule_as_written(rule) for rule in head.rules))
    await sandbox.sql(*(path_of(name, scenario.file.parent) for name in head.sql))
    await sandbox.put_rows(head.tables)


async def _run_steps(stage: Stage, steps: Sequence[PlacedStep]) -> tuple[int, ScenarioFailure | None]:
    for done, placed in enumerate(steps):
        if failure := await _run_step(stage, placed):
            return done, failure
    return len(steps), None


async def _run_step(stage: Stage, placed: PlacedStep) -> ScenarioFailure | None:
    step = placed.step
    try:
        if isinstance(step, ExpectStep):
            return await _expect(stage, placed, step)
        return await _act(stage, placed, step)
    except Exception as error:
        message = f"it broke with {type(error).__name__}: {error}"
        return ScenarioFailure(placed, message, standing=await _standing(stage, step))


async def _expect(stage: Stage, placed: PlacedStep, step: ExpectStep) -> ScenarioFailure | None:
    try:
        standing = await stage.standing(step)
    except Refused as refused:
        return ScenarioFailure(placed, str(refused))
    expected = step.expect
    if expected.tables is not None:
        found_rows = {table: await stage.sandbox.rows_of(table) for table in expected.tables}
        standing = replace(standing, tables=found_rows)
        expected = expected.model_copy(update={"tables": stage.filled(expected.tables)})
    found = differences(expected, standing)
    return ScenarioFailure(placed, "it is not as expected", tuple(found), standing) if found else None


async def _act(stage: Stage, placed: PlacedStep, step: ScenarioStep) -> ScenarioFailure | None:
    try:
        await act(stage, step)
    except Refused as refused:
        await stage.sandbox.drain()
        if refused.code == step.refused:
            return None
        expected = f"expected to be refused with {step.refused}, but " if step.refused else ""
        return ScenarioFailure(
            placed, f"{expected}it was refused: {refused}", standing=await _standing(stage, step)
        )
    await stage.sandbox.drain()
    if step.refused is None:
        return None
    message = f"expected to be refused with {step.refused}, but it was done"
    return ScenarioFailure(placed, message, standing=await _standing(stage, step))


async def _standing(stage: Stage, step: ScenarioStep | ExpectStep) -> DocumentState | None:
    name = step.on if isinstance(step, ActStep | ExpectStep | ReplyStep | ResultStep) else None
    document = stage.documents.get(name) if name is not None else stage.last
    return await document_state(stage.sandbox, document) if document is not None else None


@dataclass(frozen=True, slots=True)
class FoundScenario:
    """A scenario in a file: ready to run, or with the problems that keep it from running."""

    name: str
    source: Source
    scenario: Scenario | None
    definitions: tuple[Source, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def file(self) -> str:
        return self.source.name

    async def run(
        self, app: App | None = None, *, server: str | None = None, look: Look | None = None
    ) -> ScenarioResult:
        """Run it; `look` sees how it ended, before everything is gone."""
        if self.scenario is not None:
            return await run_scenario(self.scenario, self.definitions, app, server=server, look=look)
        line = self.source.position(("scenario",)).line
        return ScenarioResult(self.name, self.file, line, 0, 0, 0.0, problems=self.problems)


def find_scenarios(paths: Iterable[Path | str]) -> list[FoundScenario]:
    """Return every scenario in these files, and in the YAML files below these folders."""
    files = [file for path in paths for file in _files(Path(path))]
    return [found for file in dict.fromkeys(files) for found in _scenarios_in(file)]


def _files(path: Path) -> list[Path]:
    return list(files_below(path)) if path.is_dir() else [path]


def _scenarios_in(file: Path) -> list[FoundScenario]:
    documents = read_file(file)
    return [_found(source, documents) for source in documents if _is_scenario(source)]


def _is_scenario(source: Source) -> bool:
    """Also one that cannot be read: it must not be passed over in silence."""
    unreadable = kind_of(source) is None and bool(source.problems)
    meant = unreadable and any(line.startswith("scenario:") for line in source.lines)
    return meant or kind_of(source) is DeclarationKind.SCENARIO


def _found(source: Source, documents: Sequence[Source]) -> FoundScenario:
    name = str(source.value(("scenario",)) or Path(source.name).name)
    scenario, problems = read_scenario(source)
    if scenario is None:
        return FoundScenario(name, source, None, problems=tuple(problems))
    definitions, problems = _definitions(scenario, documents)
    if problems:
        return FoundScenario(name, source, None, problems=tuple(problems))
    return FoundScenario(name, source, scenario, tuple(definitions))


def _definitions(scenario: Scenario, documents: Sequence[Source]) -> tuple[list[Source], list[Problem]]:
    """Return what a scenario uses: what it names, else what lies in its own file, else what lies beside that."""
    folder = scenario.file.parent
    if missing := [name for name in scenario.head.sql if not (folder / name).is_file()]:
        index = scenario.head.sql.index(missing[0])
        problem = Problem(
            "NOT_FOUND", f"expected a file of SQL, found nothing at {missing[0]}", ("sql", index)
        )
        return [], located([problem], scenario.source)
    if scenario.head.uses is not None:
        return _named(scenario, scenario.head.uses, folder)
    own = [source for source in documents if _defines(source)]
    return own or [source for source in documents_beside(folder) if _defines(source)], []


def _named(scenario: Scenario, uses: Sequence[str], folder: Path) -> tuple[list[Source], list[Problem]]:
    definitions: list[Source] = []
    problems: list[Problem] = []
    for index, name in enumerate(uses):
        try:
            path = path_of(name, folder)
        except FileNotFoundError as error:
            problems += located([Problem("NOT_FOUND", str(error), ("uses", index))], scenario.source)
        else:
            definitions += [source for source in sources_of([path]) if _defines(source)]
    return definitions, problems


def _defines(source: Source) -> bool:
    return kind_of(source) is not DeclarationKind.SCENARIO
