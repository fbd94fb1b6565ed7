"""Scenarios in files: found, read, and run with the contracts, patches and flows that they use."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assent.app import App
from assent.compiler.declarations import DeclarationKind, kind_of
from assent.compiler.source import Source, located
from assent.model.problems import Problem
from assent.testing.scenarios.run import Look, ScenarioResult, run_scenario
from assent.testing.scenarios.scenario import Scenario, read_scenario
from assent.testing.sources import documents_beside, files_below, path_of, read_file, sources_of


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
    """Every scenario in these files, and in the YAML files below these folders."""
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
    """What a scenario uses: what it names, else what lies in its own file, else what lies beside that."""
    folder = scenario.file.parent
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
