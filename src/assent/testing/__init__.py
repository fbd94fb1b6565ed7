"""A test kit for applications: a sandbox with a clock to move, and scenarios that people write in YAML."""

from assent.testing.databases import START
from assent.testing.run import Outcome, run_scenario
from assent.testing.sandbox import Sandbox
from assent.testing.scenario import Scenario, read_scenario
from assent.testing.suite import FoundScenario, find_scenarios

__all__ = [
    "START",
    "FoundScenario",
    "Outcome",
    "Sandbox",
    "Scenario",
    "find_scenarios",
    "read_scenario",
    "run_scenario",
]
