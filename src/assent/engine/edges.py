"""The way of a token: the first edge whose guard and condition hold (D2), and when a join fires (D22, D23, WF-16)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assent.engine.consent import ANOTHER_WAS_FIRST
from assent.engine.instance import Token
from assent.model.graph import NodeKind, Outcome
from assent.model.mutation import Rejection

if TYPE_CHECKING:
    from assent.engine.plan import PlannedEdge
    from assent.engine.run import Run
    from assent.engine.visit import Visit


def choose(
    visit: "Visit", outcome: str, variables: Mapping[str, Any]
) -> "tuple[PlannedEdge | None, list[dict[str, Any]]]":
    """Return the edge that answers an outcome, and the explanation of all guards and conditions on the way."""
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
    """Return the edges into an ANY join whose arrivals do not count (D23)."""
    return [
        edge.id
        for edge in edges
        if edge.qualifies is not None
        and visit.plan.nodes[edge.target].kind is NodeKind.PARALLEL_JOIN
        and not edge.qualifies.holds(variables)
    ]


def guard_against(visit: "Visit", outcome: str) -> Rejection | None:
    """Refuse an actor whose answer no edge would take; the step stays open."""
    guards = [edge.guard for edge in visit.node.answers.get(outcome, ())]
    if not guards or any(guard is None or visit.actor.can(guard) for guard in guards):
        return None
    message = f"`{outcome}` at `{visit.node.node.name}` takes {' or '.join(filter(None, guards))}"
    return Rejection("POLICY_DENIED", message, ("actor",))


def join_is_complete(run: "Run", token: Token) -> bool:
    """Return whether enough of the tokens of this token's split have arrived."""
    if token.state != "split":
        return False
    states = [child.state for child in run.instance.children_of(token.id)]
    if _mode(run, token) == "any" and "arrived" in states:
        return True
    return all(state in ("arrived", "absorbed") for state in states)


def fire_join(run: "Run", token: Token) -> None:
    """Make the token that was split ready at its join. Asked for only when it is visited next: no step says it."""
    arrived = [child for child in run.instance.children_of(token.id) if child.state == "arrived"]
    if _mode(run, token) == "any" and arrived:
        others = [other for other in run.instance.descendants_of(token.id) if other is not arrived[0]]
        losers = [other for other in others if other.state not in ("absorbed", "split")]
        run.cancel_tokens(losers, ANOTHER_WAS_FIRST)
    token.node, token.state = run.plan.join_of_split[token.node], "ready"
    token.carry = Outcome.COMPLETED if arrived else Outcome.NONE
    # The person who moves now comes last: theirs are the rights with which the token goes on.
    arrived.sort(key=lambda child: child.authority.principal.id == run.actor.id)
    for child in arrived:
        token.authority = token.authority.joined_by(child.authority.principals)


def _mode(run: "Run", token: Token) -> str:
    return run.plan.join(run.plan.join_of_split[token.node]).mode
