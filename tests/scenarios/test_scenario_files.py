"""Every scenario that is written down passes; and so that this means something, none passes with a wrong ending."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from assent.testing.scenarios.scenario import PlacedStep
from assent.testing.scenarios.steps import Expected, ExpectStep
from assent.testing.scenarios.suite import FoundScenario, find_scenarios
from tests.authored import DESIGN
from tests.scenarios.living import SCENARIOS, Lives

DESIGNED = find_scenarios([DESIGN])


def name_of(found: FoundScenario) -> str:
    return f"{Path(found.file).stem}: {found.name}"


def test_scenarios_have_names_of_their_own() -> None:
    names = [name_of(found) for found in SCENARIOS]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("found", SCENARIOS, ids=name_of)
async def test_scenario_passes(found: FoundScenario, lives: Lives) -> None:
    life = await lives.of(found)
    assert life.passed, life.report


@pytest.mark.parametrize("found", SCENARIOS, ids=name_of)
async def test_scenario_leaves_nothing_behind(found: FoundScenario, lives: Lives) -> None:
    assert (await lives.of(found)).remains == []


@pytest.mark.parametrize("found", DESIGNED, ids=name_of)
async def test_scenario_of_the_design_passes_as_it_is_written(
    found: FoundScenario, postgres_url: str
) -> None:
    outcome = await found.run(server=postgres_url)
    assert outcome.passed, outcome.text()


def test_the_design_has_its_scenario() -> None:
    assert [len(found.scenario.steps) for found in DESIGNED if found.scenario] == [12]


async def test_scenario_of_the_design_fails_wherever_it_expects_something_else(postgres_url: str) -> None:
    (found,) = DESIGNED
    assert found.scenario is not None
    for index, placed in enumerate(found.scenario.steps):
        if isinstance(placed.step, ExpectStep):
            steps = _with_another_state(found.scenario.steps, index, placed.step)
            outcome = await replace(found, scenario=replace(found.scenario, steps=steps)).run(
                server=postgres_url
            )
            assert (outcome.steps_done, outcome.passed) == (index, False)


def _with_another_state(steps: Sequence[PlacedStep], index: int, step: ExpectStep) -> tuple[PlacedStep, ...]:
    wrong = replace(steps[index], step=ExpectStep(expect=Expected(state="elsewhere"), on=step.on))
    return (*steps[:index], wrong, *steps[index + 1 :])
