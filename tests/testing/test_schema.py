"""The schema for editors accepts what runs, and marks what is plainly wrong."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from assent.cli.main import app
from assent.testing.scenarios.scenario import scenario_schema
from assent.testing.scenarios.suite import FoundScenario, find_scenarios
from tests.authored import DESIGN
from tests.testing.test_scenario_running import GOOD
from tests.testing.written import read

SCENARIOS = find_scenarios([DESIGN, Path(__file__).parents[1] / "scenarios"])


def errors(data: object) -> list[str]:
    return [error.json_path for error in Draft202012Validator(scenario_schema()).iter_errors(data)]


def test_it_is_valid_draft_2020_12_and_printed_by_the_command() -> None:
    Draft202012Validator.check_schema(scenario_schema())
    assert json.loads(CliRunner().invoke(app, ["schema", "scenario"]).stdout) == scenario_schema()


@pytest.mark.parametrize("found", SCENARIOS, ids=lambda found: found.name)
def test_every_scenario_that_is_written_down_fits(found: FoundScenario) -> None:
    assert errors(found.source.data) == []


@pytest.mark.parametrize("name", GOOD)
def test_every_kind_of_step_fits(name: str) -> None:
    scenario, _ = read(GOOD[name])
    assert scenario is not None
    assert errors(scenario.source.data) == []


@pytest.mark.parametrize(
    "step",
    [
        {"expect": {"stat": "draft"}},
        {"create": "note"},
        {"wait": 2},
        {"as": "ann"},
        {"as": "ann", "submit": [1]},
        "submit",
    ],
    ids=str,
)
def test_what_is_plainly_wrong_is_marked(step: object) -> None:
    assert errors({"scenario": "a note", "steps": [step]}) == ["$.steps[0]"]


@pytest.mark.parametrize(
    "data", [{"scenario": "a"}, {"steps": [{"wait": "1d"}]}, {"scenario": "a", "steps": []}]
)
def test_a_scenario_has_a_name_and_steps(data: object) -> None:
    assert errors(data) != []
