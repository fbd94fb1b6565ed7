"""Plans: a workflow with the handlers of its nodes and the programs of its edges, made once per hash."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from assent.engine.instance import RunAs
from assent.engine.nodes import handler_for
from assent.engine.programs import program
from assent.language import OPEN, Program, Scope, scope_of
from assent.model.actor import Principal
from assent.model.contract import Contract, EditWindow
from assent.model.graph import Node, NodeKind
from assent.model.workflow import JoinRequirement, Workflow

if TYPE_CHECKING:
    from assent.engine.nodes.base import Handler


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    id: str
    target: str
    label: str
    guard: str | None
    condition: Program | None
    qualifies: Program | None
    loop: bool
    leaves_slot: bool


@dataclass(frozen=True, slots=True)
class PlannedNode:
    id: str
    node: Node
    kind: NodeKind
    type: str
    """The kind as steps name it; asked of an enum it takes longer than any other look-up here."""
    handler: "Handler"
    answers: Mapping[str, tuple[PlannedEdge, ...]]
    """Outcome → the edges that answer it, in order."""
    everything: tuple[PlannedEdge, ...]
    asks: bool
    """Whether an edge has a condition; without one, variables need not be computed."""
    run_as: RunAs


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled workflow for the engine; every question of the hot path is one look-up."""

    workflow: Workflow
    nodes: Mapping[str, PlannedNode]
    edges: Mapping[str, PlannedEdge]
    rank: Mapping[str, int]
    """A node's place in the topological order: short, and the same wherever the workflow is."""
    join_of_split: Mapping[str, str]
    contract: Contract | None = None
    definition_id: UUID | None = None
    definition_version: int = 0
    has_forms: bool = False
    has_requirements: bool = False
    service_accounts: tuple[Principal, ...] = ()
    """The service accounts as which its steps act."""

    def window(self, node_id: str) -> EditWindow:
        return self.workflow.edit_windows[node_id]

    def join(self, node_id: str) -> JoinRequirement:
        return self.workflow.joins[node_id]

    @property
    def start(self) -> str:
        return self.workflow.start


def plan_of(
    workflow: Workflow,
    contract: Contract | None = None,
    *,
    definition_id: UUID | None = None,
    definition_version: int = 0,
) -> Plan:
    """Return the plan of a workflow. With its contract, expressions compare decimals and times as such."""
    scope = scope_of(contract) if contract is not None else OPEN
    edges = {edge_id: _planned_edge(workflow, edge_id, scope) for edge_id in workflow.edges}
    nodes = {node.id: _planned_node(workflow, node, edges, scope) for node in workflow.nodes.values()}
    rank = {node_id: index for index, node_id in enumerate(workflow.topological_order)}
    join_of_split = {join.split: node_id for node_id, join in workflow.joins.items()}
    kinds = {node.kind for node in workflow.nodes.values()}
    return Plan(
        workflow,
        nodes,
        edges,
        rank,
        join_of_split,
        contract,
        definition_id,
        definition_version,
        has_forms=NodeKind.FORM in kinds,
        has_requirements=NodeKind.REQUIREMENTS in kinds,
        service_accounts=_service_accounts(workflow),
    )


def _service_accounts(workflow: Workflow) -> tuple[Principal, ...]:
    configs = [node.config for node in workflow.nodes.values()]
    names = {str(c["service_account"]) for c in configs if c.get("run_as") == "service_account"}
    return tuple(Principal(name, "service_account") for name in sorted(names))


def _planned_edge(workflow: Workflow, edge_id: str, scope: Scope) -> PlannedEdge:
    edge = workflow.edges[edge_id]
    return PlannedEdge(
        edge.id,
        edge.target,
        edge.label,
        edge.guard,
        program(edge.condition, scope),
        program(edge.qualifies, scope),
        edge.loop,
        edge.leaves_slot,
    )


def _planned_node(
    workflow: Workflow, node: Node, edges: Mapping[str, PlannedEdge], scope: Scope
) -> PlannedNode:
    outgoing = [edges[edge.id] for edge in workflow.outgoing(node.id)]
    answers: dict[str, tuple[PlannedEdge, ...]] = {}
    for edge in outgoing:
        answers[edge.label] = (*answers.get(edge.label, ()), edge)
    asks = any(edge.condition or edge.qualifies for edge in outgoing)
    return PlannedNode(
        id=node.id,
        node=node,
        kind=node.kind,
        type=node.kind.value,
        handler=handler_for(node, scope),
        answers=answers,
        everything=tuple(outgoing),
        asks=asks,
        run_as=node.config.get("run_as", "actor"),
    )
