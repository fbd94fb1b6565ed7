"""A test kit for applications: a sandbox with a clock to move, and scenarios that people write in YAML.

Nothing is imported before it is named: a test that needs only a database does not load the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assent.testing.databases import START
    from assent.testing.sandbox import Sandbox
    from assent.testing.scenarios.scenario import Scenario, read_scenario
    from assent.testing.scenarios.suite import FoundScenario, ScenarioResult, find_scenarios, run_scenario

_PLACES: Final = {
    "START": "assent.testing.databases",
    "ScenarioResult": "assent.testing.scenarios.suite",
    "run_scenario": "assent.testing.scenarios.suite",
    "Sandbox": "assent.testing.sandbox",
    "Scenario": "assent.testing.scenarios.scenario",
    "read_scenario": "assent.testing.scenarios.scenario",
    "FoundScenario": "assent.testing.scenarios.suite",
    "find_scenarios": "assent.testing.scenarios.suite",
}

__all__ = [
    "START",
    "FoundScenario",
    "Sandbox",
    "Scenario",
    "ScenarioResult",
    "find_scenarios",
    "read_scenario",
    "run_scenario",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"assent.testing has no {name!r}; it has {', '.join(sorted(_PLACES))}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
