"""Running a scenario: a sandbox of its own, one step after the other, until one goes otherwise than written."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assent.app import App
from assent.compiler.source import Source
from assent.model.mutation import Refused
from assent.model.problems import Invalid, Problem
from assent.testing.sandbox import Sandbox
from assent.testing.scenarios.compare import differences
from assent.testing.scenarios.document_state import DocumentState, document_state
from assent.testing.scenarios.failure import ScenarioFailure
from assent.testing.scenarios.perform import act
from assent.testing.scenarios.scenario import PlacedStep, Scenario
from assent.testing.scenarios.stage import Stage
from assent.testing.scenarios.steps import ActStep, ExpectStep, ReplyStep, ResultStep, ScenarioStep

Look = Callable[[Sandbox], Awaitable[None]]
"""Looks at what a scenario has left behind, before it is gone."""


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What became of a scenario."""

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
        """The report of a failure, as it is printed."""
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
    """The company before the first step."""
    head = scenario.head
    await sandbox.org_settings(**head.org)
    await sandbox.people(**{name: member.model_dump() for name, member in head.people.items()})
    await sandbox.roles(**head.roles)


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
    found = differences(step.expect, standing)
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
