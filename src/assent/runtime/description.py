"""An instance as one person sees it: where it is, what the person could do, and its newest steps. Takes no locks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from assent.engine.answers_open import possible_answers, possible_transitions
from assent.engine.inputs import Advance
from assent.engine.run import Run
from assent.model.actor import Actor
from assent.model.ids import new_id
from assent.runtime.batch import BatchItem
from assent.runtime.core import Core
from assent.runtime.view import InstanceView, Waiting, view_of
from assent.runtime.views import list_steps
from assent.store.database import Connection
from assent.store.rows import Row

TIMELINE_STEPS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """A step that waits, as one person sees it: the form and the events are there only if they may answer."""

    waiting: Waiting
    label: str | None
    events: Sequence[str]
    form: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Description:
    """An instance as one person sees it."""

    view: InstanceView
    name: str | None
    places: Sequence[WaitingPlace]
    transitions: Sequence[str]
    """Of the entity, whatever rests."""
    timeline: Sequence[Row]
    """Its newest steps, the oldest of them first."""
    node_names: Mapping[str, str]


async def describe(
    core: Core, connection: Connection, org_id: str, instance_id: UUID, actor: Actor
) -> Description | None:
    """Nothing when there is no such instance."""
    now = core.database.clock.now()
    work = BatchItem(org_id, instance_id, [Advance(new_id(now), actor)])
    job = await core.advancing.loader.look(connection, work, now)
    if job is None:
        return None
    run, plan = job.run, job.run.plan
    view = view_of(plan, run.instance, run.world.asked)
    steps = await list_steps(connection, org_id, instance_id, None, TIMELINE_STEPS_MAX)
    return Description(
        view,
        plan.workflow.name,
        [_place(run, waiting, actor) for waiting in view.waiting],
        possible_transitions(run, actor),
        steps[::-1],
        {node.id: node.node.name for node in plan.nodes.values()},
    )


def _place(run: Run, waiting: Waiting, actor: Actor) -> WaitingPlace:
    token = run.instance.tokens[waiting.token_id]
    node = run.plan.nodes[token.node].node
    events = possible_answers(run, token, actor) if token.state == "resting" else []
    return WaitingPlace(waiting, node.label, events, node.config.get("form", {}) if events else {})
