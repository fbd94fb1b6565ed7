"""From sources to workflows: what each source declares, and which patches belong to which contract.

Everything is compiled that can be, and every problem is found at its line and column. Opens no file.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, TypeVar

from assent.compiler.compile import compile_effective, compile_flow
from assent.compiler.envelope import check_defaults, envelope_of
from assent.compiler.source import Source, located
from assent.model.canonical import JsonValue
from assent.model.contract import Contract, parse_contract
from assent.model.flow import Flow, parse_flow
from assent.model.parse import Declaration
from assent.model.patch import Patch, parse_patch
from assent.model.problems import Problem, did_you_mean
from assent.model.workflow import Workflow

D = TypeVar("D", bound=Declaration)
Parse = Callable[[object], tuple[D | None, list[Problem]]]


class DeclarationKind(StrEnum):
    """What a source declares; its leading key says which."""

    CONTRACT = "contract"
    PATCH = "patch"
    FLOW = "flow"
    SCENARIO = "scenario"


_LEADING_KEYS: Final = frozenset(kind.value for kind in DeclarationKind)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a contract with its patches, or a flow, came to."""

    kind: Literal["effective", "flow"]
    key: str
    version: int
    sources: tuple[Source, ...]
    workflow: Workflow | None
    """None where there are problems, and for a contract without a workflow."""
    bare: Workflow | None = None
    """A contract's workflow with nothing in its slots."""


@dataclass(frozen=True, slots=True)
class CompiledSources:
    compiled: tuple[Compiled, ...]
    problems: tuple[Problem, ...]
    scenarios: tuple[Source, ...] = ()
    """Recognised, and left to those who can run them."""

    @property
    def workflows(self) -> tuple[Workflow, ...]:
        return tuple(found.workflow for found in self.compiled if found.workflow is not None)


def kind_of(source: Source) -> DeclarationKind | None:
    """Return what a source declares, by the first key that says so; a flow from elsewhere may have only its `id`."""
    if not isinstance(source.data, dict):
        return None
    for key in source.data:
        if key in _LEADING_KEYS:
            return DeclarationKind(key)
    return DeclarationKind.FLOW if {"id", "steps"} <= source.data.keys() else None


def compile_sources(sources: Iterable[Source]) -> CompiledSources:
    """Return everything that the sources declare, compiled; patches meet their contract by name and version."""
    given = list(sources)
    work = _Compilation(given)
    compiled = [*work.contracts(), *work.flows()]
    work.refuse_orphans()
    problems = tuple(dict.fromkeys(work.problems))
    return CompiledSources(tuple(compiled), problems, tuple(work.of(DeclarationKind.SCENARIO)))


class _Compilation:
    """The sources by kind, what was parsed of them, and the problems so far."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.problems = [problem for source in sources for problem in source.problems]
        self._kinds = [(source, kind_of(source)) for source in sources]
        self.problems += (
            _undeclared(source) for source, kind in self._kinds if kind is None and not source.problems
        )
        self._broken: list[JsonValue] = []
        """The contracts that unreadable patches name; what those would add is unknown."""
        self._contracts = self._parsed(DeclarationKind.CONTRACT, parse_contract)
        self._patches = self._parsed(DeclarationKind.PATCH, parse_patch)
        self._flows = self._parsed(DeclarationKind.FLOW, parse_flow)
        self._patches_of = self._matched()

    def of(self, kind: DeclarationKind) -> list[Source]:
        return [source for source, found in self._kinds if found is kind]

    def contracts(self) -> list[Compiled]:
        """Return each contract with the patches that were made for it."""
        self._refuse_repeated([((contract.name, contract.version), s) for contract, s in self._contracts])
        return [self._contract(contract, source) for contract, source in self._contracts]

    def flows(self) -> list[Compiled]:
        self._refuse_repeated([((flow.flow, flow.version), source) for flow, source in self._flows])
        return [self._flow(flow, source) for flow, source in self._flows]

    def refuse_orphans(self) -> None:
        """Note each patch whose contract is not among the sources, unless one of them could not be read."""
        if any(source.data is None for source, _ in self._kinds):
            return
        declared = [source.value(("contract",)) for source in self.of(DeclarationKind.CONTRACT)]
        for patch, source in self._patches:
            if patch.base.entity_type not in declared:
                message = f"there is no contract `{patch.base.entity_type}` beside this patch"
                hint = "name the contract's file too, or its folder"
                self._note(Problem("UNKNOWN_CONTRACT", message, ("base", "entity_type"), hint), source)

    def _parsed(self, kind: DeclarationKind, parse: "Parse[D]") -> list[tuple[D, Source]]:
        found = []
        for source in self.of(kind):
            declared, problems = parse(source.data)
            self.problems += located(problems, source)
            if declared is None:
                self._broken.append(source.value(("base", "entity_type")))
            else:
                found.append((declared, source))
        return found

    def _contract(self, contract: Contract, source: Source) -> Compiled:
        patches = self._patches_of.get((contract.name, contract.version), [])
        sources = (source, *(of for _, of in patches))
        workflow, bare = None, None
        if contract.workflow == "none":
            self.problems += located(check_defaults(contract), source)
            self._refuse_idle(sources[1:])
        else:
            workflow, bare = self._effective(contract, [patch for patch, _ in patches], sources)
        return Compiled("effective", contract.name, contract.version, sources, workflow, bare)

    def _effective(
        self, contract: Contract, patches: Sequence[Patch], sources: Sequence[Source]
    ) -> tuple[Workflow | None, Workflow | None]:
        """Return the workflow with its patches, and the bare one."""
        envelope, problems = envelope_of(contract)
        self.problems += located(problems, sources[0])
        if envelope is None:
            return None, None
        compilation = compile_effective(envelope, patches)
        for problem in compilation.problems:
            self._note_of_patches(problem, sources[1:] or sources)
        sound = contract.name not in self._broken and not any(of.problems for of in sources)
        return (compilation.workflow if sound else None), compile_effective(envelope).workflow

    def _refuse_idle(self, patches: Sequence[Source]) -> None:
        for source in patches:
            message = "its contract runs without a workflow, so there is nothing to patch"
            self._note(Problem("NO_ENVELOPE", message, ("base", "entity_type")), source)

    def _flow(self, flow: Flow, source: Source) -> Compiled:
        contracts = [contract for contract, _ in self._contracts if contract.name == flow.entity]
        contract = max(contracts, key=lambda contract: contract.version, default=None)
        compilation = compile_flow(flow, contract)
        self.problems += located(compilation.problems, source)
        workflow = None if source.problems else compilation.workflow
        return Compiled("flow", flow.flow, flow.version, (source,), workflow)

    def _matched(self) -> dict[tuple[str, int], list[tuple[Patch, Source]]]:
        """Contract → its patches; one for a version that is not there meets the newest, with a problem."""
        versions = {(contract.name, contract.version) for contract, _ in self._contracts}
        newest = dict(sorted(versions))  # of several versions the last stays, which is the highest
        found: dict[tuple[str, int], list[tuple[Patch, Source]]] = {}
        for patch, source in self._patches:
            name, wanted = patch.base.entity_type, patch.base.envelope_version
            version = wanted if (name, wanted) in versions else newest.get(name, wanted)
            found.setdefault((name, version), []).append((patch, source))
        return found

    def _note_of_patches(self, problem: Problem, sources: Sequence[Source]) -> None:
        # Where several patches were compiled together, a path begins with the index of its patch.
        match problem.path:
            case (int(index), *path) if len(sources) > 1:
                self._note(replace(problem, path=tuple(path)), sources[index])
            case _:
                self._note(problem, sources[0])

    def _refuse_repeated(self, found: Sequence[tuple[tuple[str, int], Source]]) -> None:
        first: dict[tuple[str, int], Source] = {}
        for (key, version), source in found:
            before = first.setdefault((key, version), source)
            if before is not source:
                message = f"version {version} of `{key}` is also declared in {before.name}"
                self._note(Problem("DUPLICATE_DECLARATION", message, ("version",)), source)

    def _note(self, problem: Problem, source: Source) -> None:
        self.problems += located([problem], source)


def _undeclared(source: Source) -> Problem:
    known = ", ".join(f"`{kind}:`" for kind in DeclarationKind)
    message = f"a document begins with what it declares: {known}"
    keys = source.data if isinstance(source.data, dict) else {}
    hint = next((found for key in keys if (found := did_you_mean(key, list(DeclarationKind)))), None)
    return Problem("UNKNOWN_DECLARATION", message, hint=hint).at(source.position(()), source.name)
