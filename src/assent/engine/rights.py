"""Who may start a flow and who may operate an instance: asked of every command, whichever way it comes. Pure.

What an event asks for was permitted to whoever caused it; answers and transitions have rules of their own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from assent.engine.inputs import (
    Cancel,
    CancelToken,
    ForceFail,
    Input,
    Pause,
    Resume,
    RetryInstance,
    Skip,
    Start,
)
from assent.engine.instance import Instance
from assent.model.actor import Actor
from assent.model.mutation import Rejection
from assent.model.workflow import Workflow

if TYPE_CHECKING:
    from assent.engine.run import Run

Operation = Literal["cancel", "pause", "resume", "retry", "repair"]

_OPERATIONS: Final[Mapping[type[Input], Operation]] = {
    Cancel: "cancel",
    Pause: "pause",
    Resume: "resume",
    RetryInstance: "retry",
    Skip: "repair",
    CancelToken: "repair",
    ForceFail: "repair",
}


def denied(run: "Run", given: Input) -> Rejection | None:
    """Why somebody may not give this to the instance, if they may not."""
    if isinstance(given, Start):
        return None if given.granted else unstartable(run.plan.workflow, given.actor)
    operation = _OPERATIONS.get(type(given))
    if operation is None or (operation == "cancel" and _began(run.instance, given.actor)):
        return None
    return inoperable(operation, given.actor)


def _began(instance: Instance, actor: Actor) -> bool:
    """Whoever started a flow may call it off; an entity's workflow is not one person's."""
    return instance.entity_type is None and instance.subject_id == actor.id


def unstartable(workflow: Workflow, actor: Actor) -> Rejection | None:
    missing = [name for name in workflow.capabilities if not actor.can(name)]
    if actor.kind == "system" or not missing:
        return None
    message = f"{actor.id} may not start {workflow.key}: it takes {', '.join(missing)}"
    return Rejection("POLICY_DENIED", message, ("actor",))


def inoperable(operation: Operation, actor: Actor) -> Rejection | None:
    if actor.kind == "system" or actor.can(f"workflows:{operation}"):
        return None
    message = f"{actor.id} may not {operation} instances: it takes workflows:{operation}"
    return Rejection("POLICY_DENIED", message, ("actor",))
