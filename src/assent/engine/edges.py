"""Which edge is taken, and why: the first whose guard and condition hold, by priority and id (D2)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assent.model.graph import NodeKind
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.plan import PlannedEdge
    from assent.engine.visit import Visit


def choose(
    visit: "Visit", outcome: str, variables: Mapping[str, Any]
) -> "tuple[PlannedEdge | None, list[dict[str, Any]]]":
    """The edge that answers an outcome, and the explanation of everything that was asked on the way."""
    evaluations: list[dict[str, Any]] = []
    for edge in visit.node.answers.get(outcome, ()):
        if edge.guard is not None:
            held = visit.actor.can(edge.guard)
            evaluations.append({"edge": edge.id, "guard": edge.guard, "result": held})
            if not held:
                continue
        if edge.condition is not None:
            evaluation = edge.condition(variables)
            evaluations.append({"edge": edge.id, **evaluation.to_json()})
            if not evaluation.holds:
                continue
        return edge, evaluations
    return None, evaluations


def not_qualified(visit: "Visit", edges: "Sequence[PlannedEdge]", variables: Mapping[str, Any]) -> list[str]:
    """The edges into an ANY join whose arrivals do not count (D23)."""
    return [
        edge.id
        for edge in edges
        if edge.qualifies is not None
        and visit.plan.nodes[edge.target].kind is NodeKind.PARALLEL_JOIN
        and not edge.qualifies.holds(variables)
    ]


def guard_against(visit: "Visit", outcome: str) -> Rejection | None:
    """Refuses somebody whose answer no edge would take from them; nothing is stuck for it."""
    guards = [edge.guard for edge in visit.node.answers.get(outcome, ())]
    if not guards or any(guard is None or visit.actor.can(guard) for guard in guards):
        return None
    message = f"`{outcome}` at `{visit.node.node.name}` takes {' or '.join(filter(None, guards))}"
    return Rejection("POLICY_DENIED", message, ("actor",))
