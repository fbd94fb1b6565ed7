"""The answers that an actor could give now, tried by the engine itself on a copy: what is shown is possible."""

from copy import deepcopy
from typing import Final

from assent.engine.apply import apply_input
from assent.engine.inputs import Advance
from assent.engine.instance import Token
from assent.engine.plan import PlannedNode
from assent.engine.run import Run
from assent.model.actor import Actor
from assent.model.graph import NodeKind, Outcome
from assent.model.ids import new_id
from assent.model.mutation import Rejection

_BY_THEMSELVES: Final = frozenset(
    {Outcome.TIMEOUT, Outcome.ERROR, Outcome.DRIFT, Outcome.NONE, Outcome.DENIED}
)
"""Outcomes that are no answers of people."""


def possible_answers(run: Run, token: Token, actor: Actor) -> list[str]:
    """Return the events with which this actor could answer a step that rests."""
    events = [event for event in _answers(run.plan.nodes[token.node]) if event not in _BY_THEMSELVES]
    return [event for event in sorted(events) if _would_be_taken(run, event, actor, token.node)]


def possible_transitions(run: Run, actor: Actor) -> list[str]:
    """Return the transitions of the entity that this actor could make from its present state."""
    entity = run.world.entity
    node = run.plan.nodes.get(f"sys:state:{entity.state}") if entity is not None else None
    if node is None:
        return []
    events = [event for event in node.answers if event not in {*_BY_THEMSELVES, Outcome.COMPLETED}]
    return [event for event in sorted(events) if _would_be_taken(run, event, actor, None)]


def _answers(node: PlannedNode) -> set[str]:
    if node.kind is not NodeKind.APPROVAL:
        return set(node.answers)
    return {"approved", "rejected", "abstained", *node.node.config.get("outcomes", ())}


def refusal_of(run: Run, event: str, actor: Actor, step: str | None) -> Rejection | None:
    """Return why the engine would refuse an answer; None if it would not. Problems of an empty form do not count."""
    trial = Run(run.plan, deepcopy(run.instance), run.world.copy(), actor=actor)
    outcome = apply_input(trial, Advance(new_id(run.world.now), actor, event, {}, step))
    return outcome if isinstance(outcome, Rejection) and not outcome.problems else None


def _would_be_taken(run: Run, event: str, actor: Actor, step: str | None) -> bool:
    return refusal_of(run, event, actor, step) is None
