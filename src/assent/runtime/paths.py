"""The way of an instance over the graph of its definition, and one of its steps. Reads, and never writes.

Who may read an instance sees its nodes, its tokens and which edges were taken. What a definition says beyond names, and
what steps were given and gave, is for those who work on definitions and for operators.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from assent.effects.outbox import EffectItem
from assent.engine.instance import Token, root_id
from assent.engine.run import Run
from assent.model.actor import Actor
from assent.model.graph import Edge, Node
from assent.model.workflow import Workflow
from assent.operations.incidents import WayOut, ways_out_of
from assent.runtime.rights import EDIT, PUBLISH, READ_DEFINITIONS
from assent.runtime.views import StepItem
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.runtime", "runtime.sql")

PATH_STEPS_MAX: Final = 1_000
"""How many steps, the newest, a path counts."""
_RETRY: Final = "workflows:retry"
_NEEDED: Final = {
    "retry": _RETRY,
    "skip": "workflows:repair",
    "edit_variables": "workflows:repair",
    "cancel": "workflows:cancel",
    "force_fail": "workflows:repair",
}
_OF_STEPS: Final = ("outcome", "chosen_edge_ids", "evaluations", "expressions", "n")
"""What a step's output says about the way and its place in it, besides what the step gave."""


@dataclass(frozen=True, slots=True)
class PathNode:
    """A node of a definition, and how often an instance was there."""

    id: str
    name: str
    kind: str
    label: str | None
    slot: str | None
    """The slot that an org filled with it; None for what the contract or the flow brought."""
    window: str
    timeout_s: int | None
    visits: int
    last_step_id: UUID | None
    last_status: str | None


@dataclass(frozen=True, slots=True)
class PathEdge:
    """An edge of a definition, and how often an instance took it."""

    id: str
    source: str
    target: str
    label: str
    condition: str | None
    guard: str | None
    provenance: str
    loop: bool
    taken: int


@dataclass(frozen=True, slots=True)
class PathToken:
    """A thread of execution, and where it is."""

    id: str
    node_id: str
    state: str
    generation: int
    step_id: UUID | None
    since: datetime | None
    wakes_at: datetime | None
    """When a timer continues it."""
    event_key: str | None
    """The event that it waits for."""
    attempt: int


@dataclass(frozen=True, slots=True)
class InstancePath:
    """The graph that an instance lives by, with its way."""

    instance_id: UUID
    definition: str
    definition_version: int
    start: str
    nodes: Sequence[PathNode]
    edges: Sequence[PathEdge]
    tokens: Sequence[PathToken]
    generation: int
    more: bool
    """Whether there are older steps, which are not counted."""
    ways_out: Sequence[WayOut]
    """The commands by which the reader can help it, where an error paused it."""


@dataclass(frozen=True, slots=True)
class StepDetails:
    """A step with what it was given, how its way was chosen, and what it gave."""

    step: StepItem
    token_id: str
    generation: int
    entity_version: int
    run_as: str
    duration_ms: int | None
    wakes_at: datetime | None
    event_key: str | None
    edges: Sequence[str]
    """Those that it left by."""
    input: Any
    evaluations: Sequence[Mapping[str, Any]]
    """Of guards and conditions, each with the variables that it read."""
    expressions: Mapping[str, Any]
    """Of what the step was given: text, variables and result of each."""
    output: Mapping[str, Any]
    shown: bool
    """Whether the reader may see what it was given and gave."""
    effects: Sequence[EffectItem]

    @classmethod
    def of(cls, row: Row, name: str | None, effects: Sequence[EffectItem], *, shown: bool) -> Self:
        """Return the details of a step's row."""
        output = row["output_json"] or {}
        rest = {key: value for key, value in output.items() if key not in _OF_STEPS}
        return cls(
            step=StepItem.of(row, name),
            token_id=row["token_id"],
            generation=generation_of(row["token_id"]),
            entity_version=row["entity_version"],
            run_as=row["run_as"],
            duration_ms=row["duration_ms"],
            wakes_at=row["resume_at"],
            event_key=row["waiting_for_event_key"],
            edges=output.get("chosen_edge_ids") or [],
            input=row["input_json"] if shown else None,
            evaluations=(output.get("evaluations") or []) if shown else [],
            expressions=(output.get("expressions") or {}) if shown else {},
            output=rest if shown else {},
            shown=shown,
            effects=effects,
        )


def generation_of(token_id: str) -> int:
    """Return the generation of a token, which its id begins with: `2/1.0` is of generation 2."""
    digits = root_id(token_id).partition("!")[0]
    return int(digits) if digits.isdigit() else 0


def may_see_inside(actor: Actor) -> bool:
    """Return whether an actor may see what steps were given and gave."""
    return actor.kind == "system" or actor.can(_RETRY)


async def read_path(connection: Connection, row: Row, run: Run, actor: Actor) -> InstancePath:
    """Return the way of an instance whose row and run were read."""
    workflow = run.plan.workflow
    steps = [
        dict(step)
        for step in await connection.fetch(_SQL.list_path, row["org_id"], row["id"], PATH_STEPS_MAX + 1)
    ]
    has_more, steps = len(steps) > PATH_STEPS_MAX, steps[:PATH_STEPS_MAX]
    says = may_see_inside(actor) or any(actor.can(one) for one in (READ_DEFINITIONS, EDIT, PUBLISH))
    taken = Counter(edge for step in steps for edge in step["edges"] or ())
    visits = Counter(step["node_id"] for step in steps)
    latest = {step["node_id"]: step for step in reversed(steps)}
    open_steps = {step["id"]: step for step in steps}
    return InstancePath(
        row["id"],
        row["workflow_id"],
        row["definition_version"],
        workflow.start,
        [
            _node(workflow, workflow.nodes[node_id], visits[node_id], latest.get(node_id))
            for node_id in workflow.topological_order
        ],
        [_edge(edge, taken[edge.id], says=says) for edge in workflow.edges.values()],
        [_token(token, open_steps.get(token.step_id)) for _, token in sorted(run.instance.tokens.items())],
        run.instance.generation,
        has_more,
        _ways_out(row, actor),
    )


def _node(workflow: Workflow, node: Node, visits: int, latest: Row | None) -> PathNode:
    slot = workflow.slot_map[node.id]
    return PathNode(
        node.id,
        node.name,
        node.kind.value,
        node.label,
        slot if slot in workflow.slots else None,
        workflow.edit_windows[node.id].value,
        node.timeout_seconds,
        visits,
        latest["id"] if latest else None,
        latest["status"] if latest else None,
    )


def _edge(edge: Edge, taken: int, *, says: bool) -> PathEdge:
    condition, guard = (edge.condition, edge.guard) if says else (None, None)
    return PathEdge(
        *(edge.id, edge.source, edge.target, edge.label, condition, guard, edge.provenance),
        *(edge.loop or edge.leaves_slot, taken),
    )


def _token(token: Token, step: Row | None) -> PathToken:
    return PathToken(
        id=token.id,
        node_id=token.node,
        state=token.state,
        generation=generation_of(token.id),
        step_id=token.step_id,
        since=token.step_at,
        wakes_at=step["resume_at"] if step else None,
        event_key=step["waiting_for_event_key"] if step else None,
        attempt=token.attempt,
    )


def _ways_out(row: Row, actor: Actor) -> list[WayOut]:
    if row["status"] != "paused" or row["incident"] is None:
        return []
    return [
        way
        for way in ways_out_of("instance", row["id"])
        if actor.can(_NEEDED[way.name]) or (way.name == "cancel" and row["subject_id"] == actor.id)
    ]


async def find_step(connection: Connection, org_id: str, instance_id: UUID, step_id: UUID) -> Row | None:
    """Return a step of an instance with all that is kept of it."""
    row = await connection.fetchrow(_SQL.find_step, org_id, instance_id, step_id)
    return dict(row) if row else None
