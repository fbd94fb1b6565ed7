"""The ways through a workflow: what there is to go, and what the steps of a scenario say was gone."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assent.model.graph import Node, Outcome
from assent.model.workflow import Workflow
from assent.testing import Sandbox
from tests.world import rows

EXPIRY = "expiry"
"""The workflow's own time is over: no edge leads there."""

PATIENCE = {"remind": "reminded", "escalate": "escalated", "default": "decided by default"}
"""What happens to those who do not answer: as the node declares it → what the way is called."""

Row = Mapping[str, Any]


def ways_of(workflow: Workflow) -> list[str]:
    """Every node and every edge, and everything that happens when nobody answers in time."""
    found = [*map(place, workflow.nodes.values()), *workflow.edges]
    if workflow.expiry is not None:
        found.append(EXPIRY)
    for node in workflow.nodes.values():
        found += [f"{place(node)} {way}" for said, way in PATIENCE.items() if said in node.config]
    return found


def place(node: Node) -> str:
    """A node by the name that its author gave it."""
    return node.id if node.id.startswith("sys:") else node.name


async def ways_gone(sandbox: Sandbox, workflows: Iterable[Workflow]) -> dict[str, set[str]]:
    """The ways that instances have gone, by the key of their workflow; only of these very workflows."""
    by_hash = {workflow.hash: workflow for workflow in workflows}
    instances = await rows(sandbox.database, "workflow_instances")
    ran = {row["id"]: by_hash.get(row["definition_hash"]) for row in instances}
    steps = {row["id"]: row for row in await rows(sandbox.database, "workflow_step_executions")}
    found: dict[str, set[str]] = {}
    for step in steps.values():
        if workflow := ran[step["instance_id"]]:
            found.setdefault(workflow.key, set()).update(_of_step(workflow, step))
    for effect in await rows(sandbox.database, "effects"):
        if workflow := ran[effect["instance_id"]]:
            found[workflow.key].update(_of_message(workflow, steps[effect["step_id"]], effect))
    return found


def _of_step(workflow: Workflow, step: Row) -> Iterator[str]:
    """A node counts when it was completed: whoever stopped at it has not been through."""
    output = step["output_json"] or {}
    yield from output.get("chosen_edge_ids", ())
    if (node := workflow.nodes.get(step["node_id"])) is None:
        yield from _of_control(workflow, output)
    elif step["status"] == "completed":
        yield place(node)
        if "default" in output:
            yield f"{place(node)} {PATIENCE['default']}"


def _of_control(workflow: Workflow, output: Row) -> Iterator[str]:
    """An edit and the end of its time move a whole instance; the step says where to, and not by which edge."""
    if output.get("timed_out"):
        yield EXPIRY
    if output.get("reason") == Outcome.DRIFT:
        edges = workflow.edges.values()
        yield from (
            edge.id for edge in edges if edge.label == Outcome.DRIFT and edge.target == output.get("to")
        )


def _of_message(workflow: Workflow, step: Row, effect: Row) -> Iterator[str]:
    occasion = effect["payload"].get("occasion")
    if occasion in PATIENCE.values():
        yield f"{place(workflow.nodes[step['node_id']])} {occasion}"
