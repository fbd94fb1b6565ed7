"""A scenario: some people, a company's settings, and what they do step by step, as an author writes it in YAML.

Its JSON Schema is made from the models, so that editors complete and check files. A transition of a contract is a key
that no schema knows: what the schema accepts may still have problems.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from pydantic import AwareDatetime, Field
from pydantic.json_schema import models_json_schema

from assent.compiler.schemas import DescribedSchema, titled
from assent.compiler.source import Source, located
from assent.kernel.rules import RuleSpec
from assent.model.parse import Declaration, listed, parse_declaration
from assent.model.problems import Problem
from assent.model.terms import Capability, Text
from assent.testing.databases import START
from assent.testing.people import MemberOrRoles, ScenarioMember
from assent.testing.scenarios.steps import (
    AROUND,
    NAMED,
    ActStep,
    AnswerStep,
    AnyStep,
    ChangePeopleStep,
    ChangeStep,
    CreateStep,
    DelegateStep,
    ExpectStep,
    Person,
    ReassignStep,
    ReplyStep,
    StartStep,
    Tables,
    kind_of_step,
)

STEPS_MAX: Final = 1_000
LINES_SHOWN_MAX: Final = 12


class ScenarioHead(Declaration):
    """Everything but the steps."""

    scenario: Text
    uses: tuple[str, ...] | None = None
    """Files and folders with contracts, patches and flows, or `template:<name>`; unsaid, what lies beside."""
    now: AwareDatetime = START
    """When it begins."""
    org: Mapping[str, Any] = {}
    people: Mapping[Person, MemberOrRoles] = {}
    roles: Mapping[str, tuple[Capability, ...]] = {}
    """Role → what it may do, where flows and steps ask for capabilities."""
    rules: tuple[RuleSpec, ...] = ()
    """The org's own rules around actions."""
    sql: tuple[str, ...] = ()
    """Files with the application's own tables, which are run before the first step."""
    tables: Tables = Field(default_factory=dict)
    """Rows of the application's own tables."""
    steps: list[dict[str, Any]] = Field(min_length=1, max_length=STEPS_MAX)


@dataclass(frozen=True, slots=True)
class PlacedStep:
    """A step and where it is written."""

    number: int
    line: int
    text: str
    step: AnyStep


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario without problems."""

    name: str
    source: Source
    head: ScenarioHead
    steps: tuple[PlacedStep, ...]

    @property
    def now(self) -> datetime:
        return self.head.now

    @property
    def file(self) -> Path:
        return Path(self.source.name)

    @property
    def line(self) -> int:
        return self.source.key_position(("scenario",)).line


def read_scenario(source: Source) -> tuple[Scenario | None, list[Problem]]:
    """Return the scenario in a source, or every problem that it has, each at its line."""
    problems = list(source.problems)
    if source.data is None:
        return None, problems
    head, found = parse_declaration(ScenarioHead, source.data)
    problems += located(found, source)
    if head is None:
        return None, problems
    steps, found = _read_steps(head, source)
    found += _check_names(head, steps)
    problems += located(found, source)
    if problems:
        return None, problems
    return Scenario(head.scenario, source, head, tuple(steps)), []


def _read_steps(head: ScenarioHead, source: Source) -> tuple[list[PlacedStep], list[Problem]]:
    steps: list[PlacedStep] = []
    problems: list[Problem] = []
    for index, raw in enumerate(head.steps):
        step, found = _read_step(raw)
        problems += [problem.under("steps", index) for problem in found]
        if step is not None:
            line, text = _text_of(source, index)
            steps.append(PlacedStep(index + 1, line, text, step))
    return steps, problems


def _read_step(raw: dict[str, Any]) -> tuple[AnyStep | None, list[Problem]]:
    found = kind_of_step(raw)
    if isinstance(found, Problem):
        return None, [found]
    kind, data = found
    step, problems = parse_declaration(kind, data)
    return step, [_as_written(problem, raw, data) for problem in problems]


def _as_written(problem: Problem, raw: dict[str, Any], data: dict[str, Any]) -> Problem:
    """Return a problem with its path as the author has it: a transition's data stands under its own name."""
    moved = {"data", "node"} - raw.keys()
    if problem.path and problem.path[0] in moved and "verb" in data:
        return replace(problem, path=(data["verb"], *problem.path[1:]))
    return problem


def _text_of(source: Source, index: int) -> tuple[int, str]:
    """Return where a step begins, and its text: the line of its dash, and those that are indented further."""
    line = source.position(("steps", index)).line
    block = takewhile(
        lambda text: _indent(text) > _indent(source.line(line)), source.lines[line : line + LINES_SHOWN_MAX]
    )
    return line, dedent("\n".join([source.line(line).replace("- ", "  ", 1), *block])).strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 0


def _check_names(head: ScenarioHead, steps: Sequence[PlacedStep]) -> Iterator[Problem]:
    """Yield a problem for every person and thing that a step names before it is there."""
    people, documents = set(head.people), set[str]()
    yield from _check_managers(head.people, people)
    for placed in steps:
        at, step = ("steps", placed.number - 1), placed.step
        if isinstance(step, ChangePeopleStep):
            people |= step.people.keys()
            yield from (problem.under(*at) for problem in _check_managers(step.people, people))
        for path, name in _people_in(step):
            if name not in people:
                yield _unknown_person(name, people).under(*at, *path)
        if (
            isinstance(step, ActStep | ExpectStep | ReplyStep)
            and step.on is not None
            and step.on not in documents
        ):
            yield _unknown_document(step.on, documents).under(*at, "on")
        if isinstance(step, CreateStep | StartStep) and step.name is not None:
            documents.add(step.name)


def _check_managers(members: Mapping[str, ScenarioMember], people: set[str]) -> Iterator[Problem]:
    for name, member in members.items():
        if member.manager is not None and member.manager not in people:
            yield _unknown_person(member.manager, people).under("people", name, "manager")


def _people_in(step: AnyStep) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(step, ActStep):
        yield ("as",), step.as_
    if isinstance(step, AnswerStep) and step.on_behalf_of:
        yield ("on_behalf_of",), step.on_behalf_of
    if isinstance(step, DelegateStep):
        yield ("delegate", "to"), step.delegate.to
    if isinstance(step, ReassignStep):
        yield ("reassign", "from"), step.reassign.from_
        yield ("reassign", "to"), step.reassign.to


def _unknown_person(name: str, people: set[str]) -> Problem:
    return _unknown(
        "UNKNOWN_PERSON", f"`{name}` is not one of the people: {listed(sorted(people))}", name, people
    )


def _unknown_document(name: str, documents: set[str]) -> Problem:
    known = listed(sorted(documents)) or "none has a `name`"
    return _unknown("UNKNOWN_DOCUMENT", f"no earlier step made a `{name}`: {known}", name, documents)


def _unknown(code: str, message: str, name: str, known: set[str]) -> Problem:
    near = get_close_matches(name, known, n=1)
    return Problem(code, message, hint=f"did you mean `{near[0]}`?" if near else None)


_REF: Final = "#/$defs/{model}"


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema (Draft 2020-12) of a scenario."""
    named = dict.fromkeys(kind for kind, _ in NAMED.values())
    models = [ScenarioHead, *named, AnswerStep, ChangeStep]
    _, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REF, schema_generator=DescribedSchema
    )
    definitions = schema["$defs"]
    head = definitions.pop("ScenarioHead")
    choices = [{"$ref": _REF.format(model=kind.__name__)} for kind in named]
    head["properties"]["steps"]["items"] = {"anyOf": [*choices, _free(definitions)]}
    return titled("scenario", {**head, "$defs": definitions})


def _free(definitions: dict[str, Any]) -> dict[str, Any]:
    """Return an answer to a step, a transition or an action, under whatever name it has."""
    answer, change = definitions.pop("AnswerStep"), definitions.pop("ChangeStep")
    known = {**answer["properties"], **change["properties"]}
    return {
        "type": "object",
        "properties": {name: known[name] for name in sorted(AROUND & known.keys())},
        "additionalProperties": {"type": ["string", "object"]},
        "minProperties": 2,
        "required": ["as"],
    }
