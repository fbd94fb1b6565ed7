"""Every template is lived through: each node, each edge and each way in which time runs out, by some scenario.

What cannot be gone is listed by name, with its reason; what is on the list and is gone after all is found as well.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from assent.compiler.declarations import compile_sources
from assent.compiler.source import read_source
from assent.model.canonical import canonical_json
from assent.model.workflow import Workflow
from assent.testing import FoundScenario
from tests.scenarios.living import SCENARIOS, Lives
from tests.scenarios.templates import NAMES, read, workflow_of
from tests.scenarios.ways import ways_of

pytestmark = pytest.mark.long

NOBODY_REJECTS = "nobody is asked on the way there, so nobody can reject"

SUBMITTING = dict.fromkeys(
    ("sys:gate:submit->sys:state:amended:rejected", "sys:gate:submit->sys:state:draft:rejected"),
    NOBODY_REJECTS,
)
ACTIVATING = {"sys:slot:approved_to_active:out->sys:state:active:rejected": NOBODY_REJECTS}
CANNOT_BE_GONE: Mapping[str, Mapping[str, str]] = {
    "amendment_loop": SUBMITTING | {"sys:slot:amendment_cycle:out->sys:gate:submit:rejected": NOBODY_REJECTS},
    "delivery_confirmation": SUBMITTING,
    "fast_track": SUBMITTING,
    "invoice_approval": SUBMITTING | ACTIVATING,
    "purchase_order": SUBMITTING | ACTIVATING | {"sys:gate:close->sys:state:active:rejected": NOBODY_REJECTS},
    "return_credit_note": SUBMITTING | ACTIVATING,
    "sales_order_fulfilment": SUBMITTING,
}


async def ways_not_gone(lives: Lives, template: str, workflow: Workflow) -> set[str]:
    """What is left of a workflow when all the scenarios of a template have been through it."""
    found = [await lives.of(scenario) for scenario in SCENARIOS if uses(scenario, template)]
    return set(ways_of(workflow)) - {way for life in found for way in life.gone.get(template, ())}


def uses(found: FoundScenario, template: str) -> bool:
    return found.scenario is not None and f"template:{template}" in (found.scenario.head.uses or ())


@pytest.mark.parametrize("template", NAMES)
async def test_every_way_through_a_template_is_gone_by_a_scenario(lives: Lives, template: str) -> None:
    not_gone = await ways_not_gone(lives, template, workflow_of(template))
    assert sorted(not_gone) == sorted(CANNOT_BE_GONE.get(template, ()))


@pytest.mark.parametrize("template", NAMES)
def test_the_names_of_ways_tell_them_apart(template: str) -> None:
    ways = ways_of(workflow_of(template))
    assert sorted(ways) == sorted(set(ways))


async def test_a_new_node_without_a_scenario_is_seen(lives: Lives) -> None:
    patch = read("fast_track", "patch.yaml")
    (slot,) = patch["slots"].values()
    slot["nodes"].append({"id": "log", "type": "script", "set": {"seen": "true"}})
    (fast_out,) = [edge for edge in slot["edges"] if edge == {"from": "fast", "to": "out"}]
    fast_out["to"] = "log"
    slot["edges"].append({"from": "log", "to": "out"})
    new = compiled(read("fast_track", "contract.yaml"), patch)
    stem = "usr:slot:submitted_to_approved"
    assert await ways_not_gone(lives, "fast_track", new) == {
        "log",
        f"{stem}:fast->log",
        f"{stem}:log->out",
        *CANNOT_BE_GONE["fast_track"],
    }


async def test_a_reminder_without_a_scenario_is_seen(lives: Lives) -> None:
    flow = read("dispute_resolution", "flow.yaml")
    (senior,) = [step for step in flow["steps"] if step["id"] == "senior_review"]
    senior |= {"remind": "1d", "escalate": {"after": "4d", "to": {"role": "board"}}}
    assert await ways_not_gone(lives, "dispute_resolution", compiled(flow)) == {
        "senior_review reminded",
        "senior_review escalated",
    }


def compiled(*declared: Any) -> Workflow:
    found = compile_sources(read_source(canonical_json(one), "changed") for one in declared)
    (workflow,) = found.workflows
    return workflow
