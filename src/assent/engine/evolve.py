"""Applying a step's effect to an instance: the same function for live steps and for a rebuild from history.

What an effect does follows from the step and the graph alone. A step's output says in which order effects
happened: `entered` when it came to rest, `n` when it ended.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from assent.engine.instance import (
    CONTROL,
    Instance,
    Step,
    Token,
    TokenState,
    child_id,
    next_generation,
    root_id,
)
from assent.model.actor import Authority, Principal
from assent.model.graph import NodeKind
from assent.model.nodes import KINDS
from assent.model.terms import is_engines_own

if TYPE_CHECKING:
    from assent.engine.plan import Plan, PlannedEdge

AUTOMATIC_KINDS: Final = frozenset(kind for kind, declared in KINDS.items() if declared.automatic)
"""Automatic calls; too many of them in a row are an endless loop."""

WAITING_KINDS: Final = frozenset(kind for kind, declared in KINDS.items() if declared.waits)
"""Where a chain of automatic calls ends, because the instance waited."""


def evolve(plan: "Plan", instance: Instance, step: Step) -> None:
    """Make the step's effect part of the instance."""
    instance.version += 1
    if step.node_type == CONTROL:
        _control(instance, step)
    elif step.status == "pending":
        _rest(instance, step)
    elif step.status == "cancelled":
        _remove(instance, step.token_id)
    else:
        _end(plan, instance, step)


def fold(plan: "Plan", instance: Instance, steps: Iterable[Step]) -> Instance:
    """Return the instance that its steps make, in the order in which they took effect (WF-15)."""
    for _, step in sorted(_effects(steps), key=lambda effect: effect[0]):
        evolve(plan, instance, step)
    return instance


def _effects(steps: Iterable[Step]) -> Iterable[tuple[int, Step]]:
    for step in steps:
        entered = step.output.get("entered")
        if entered is not None:
            yield entered, _as_entered(step)
        if step.status != "pending":
            yield step.output["n"], step


def _as_entered(step: Step) -> Step:
    return Step(
        step.org_id,
        step.instance_id,
        step.id,
        step.created_at,
        step.node_id,
        step.node_type,
        step.token_id,
        step.entity_version,
        step.key,
        "pending",
        step.actor_id,
    )


def place_of(token_id: str) -> str:
    """Return the token that a step belongs to: a step that was tried again has the attempt in its id (D25)."""
    return token_id.partition("!")[0]


def _rest(instance: Instance, step: Step) -> None:
    token = instance.tokens[place_of(step.token_id)]
    token.state, token.step_id, token.step_at = "resting", step.id, step.created_at
    token.entered = instance.version
    instance.entity_version = max(instance.entity_version, step.entity_version)


def _remove(instance: Instance, token_id: str) -> None:
    """Remove a token, and what is left of its splits."""
    place = place_of(token_id)
    for descendant in instance.descendants_of(place):
        del instance.tokens[descendant.id]
    instance.tokens.pop(place, None)


def _end(plan: "Plan", instance: Instance, step: Step) -> None:
    output = step.output
    token = instance.tokens[place_of(step.token_id)]
    if changed := output.get("set"):
        instance.context |= changed
    instance.entity_version = output.get("entity_version", max(instance.entity_version, step.entity_version))
    _count_chain(instance, step)
    token.step_id, token.step_at, token.entered = None, None, 0
    _credit(instance, token, step)
    edges = [plan.edges[edge_id] for edge_id in output.get("chosen_edge_ids", ())]
    if step.node_type == NodeKind.PARALLEL_JOIN:
        # Until its join the token stood at its split.
        token.node, token.carry = step.node_id, output["outcome"]
    if step.node_type == NodeKind.PARALLEL_SPLIT:
        _split(plan, instance, token, edges, output)
    elif step.node_type == NodeKind.END:
        del instance.tokens[token.id]
        if not instance.tokens:
            instance.status = "completed"
    elif edges:
        if step.node_type == NodeKind.PARALLEL_JOIN:
            _take_in(instance, token)
        _move(plan, instance, token, edges[0], output)
    else:
        token.state = "failed"


def _credit(instance: Instance, token: Token, step: Step) -> None:
    """Note on whose behalf the token goes on, and whose work is part of what is approved next.

    Only an act of a person changes it: `principal` is in the output where a person ended the step. A decision by itself
    is no contribution; what an approver fills in with it is.
    """
    output = step.output
    if "authority" in output:
        token.authority = Authority.from_json(output["authority"])
    if output.get("consumed"):
        instance.originators.consume()
    if step.node_type == NodeKind.LIFECYCLE_GATE and token.authority.command is not None:
        token.authority = Authority(token.authority.principals)
    if "principal" not in output:
        # A step that waited for documents: those who handed them in did not end it, and had a part.
        instance.originators.add(output.get("contributors", ()))
        return
    person = Principal.from_json(output["principal"])
    if step.node_type == NodeKind.STATE:
        instance.originators.begin_again_if_approved()
        token.authority = Authority((person,), output["command"])
    else:
        token.authority = token.authority.joined_by([person])
    wrote = any(not is_engines_own(name) for name in output.get("set", ()))
    if step.node_type != NodeKind.APPROVAL or wrote:
        instance.originators.add([*person.people, *output.get("contributors", ())])


def _count_chain(instance: Instance, step: Step) -> None:
    if step.node_type in AUTOMATIC_KINDS:
        instance.chain_length += 1
    elif step.node_type in WAITING_KINDS or step.output.get("command"):
        instance.chain_length = 0


def _split(
    plan: "Plan", instance: Instance, token: Token, edges: "list[PlannedEdge]", output: dict[str, Any]
) -> None:
    token.state, token.attempt = "split", 0
    rank = plan.rank[token.node]
    for index, edge in enumerate(edges):
        spawned = child_id(token.id, rank, index)
        state = _arrival(plan, edge, output)
        instance.tokens[spawned] = Token(
            spawned,
            edge.target,
            instance.entity_version,
            state,
            edge.label,
            edge.id,
            authority=token.authority,
        )


def _arrival(plan: "Plan", edge: "PlannedEdge", output: dict[str, Any]) -> TokenState:
    """At a join a token waits for the others, or is absorbed when it does not count (D23)."""
    if plan.nodes[edge.target].kind is not NodeKind.PARALLEL_JOIN:
        return "ready"
    return "absorbed" if edge.id in output.get("absorbed", ()) else "arrived"


def _take_in(instance: Instance, token: Token) -> None:
    """Take the arrivals of a join that fired into the token that was split."""
    for child in instance.descendants_of(token.id):
        del instance.tokens[child.id]


def _move(
    plan: "Plan", instance: Instance, token: Token, edge: "PlannedEdge", output: dict[str, Any]
) -> None:
    del instance.tokens[token.id]
    if edge.leaves_slot:
        # A rejection leaves by the slot's own way out, as the token that came in (D20).
        for other in instance.descendants_of(root_id(token.id)):
            del instance.tokens[other.id]
        token.id = root_id(token.id)
    if edge.loop:
        token.id = next_generation(token.id)
        instance.generation = max(instance.generation, _generation(token.id))
    token.node, token.edge, token.carry, token.attempt = edge.target, edge.id, edge.label, 0
    token.state, token.version = _arrival(plan, edge, output), instance.entity_version
    instance.tokens[token.id] = token


def _generation(token_id: str) -> int:
    return int(root_id(token_id))


def _control(instance: Instance, step: Step) -> None:
    """Apply what a control step did, which its output says, so that a rebuild does the same."""
    output: dict[str, Any] = step.output
    if "status" in output:
        instance.status = output["status"]
        instance.incident = output.get("incident")
        instance.chain_length = 0
    if "set" in output:
        instance.context |= output["set"]
    if "entity_version" in output:
        instance.entity_version = output["entity_version"]
    if "to" in output or instance.has_ended:
        instance.tokens.clear()
    if "to" in output:
        instance.generation += 1
        root = str(instance.generation)
        authority = Authority.from_json(output["authority"])
        instance.tokens[root] = Token(root, output["to"], instance.entity_version, authority=authority)
    if output.get("contributes"):
        instance.originators.add(Authority.from_json(output["authority"]).people)
    if "again" in output:
        token = instance.tokens[output["again"]]
        token.state, token.attempt = "ready", token.attempt + 1
        token.version = output.get("entity_version", token.version)
