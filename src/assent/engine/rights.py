"""The rights to start a flow and to operate an instance, checked for every command. Pure.

The cause of an event was permitted before; answers and transitions have rules of their own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from assent.engine.inputs import (
    Cancel,
    CancelToken,
    EditVariables,
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
    EditVariables: "repair",
}


def denied(run: "Run", command: Input) -> Rejection | None:
    """Return why the actor may not give this command to the instance, or None."""
    if isinstance(command, Start):
        return None if command.granted else unstartable(run.plan.workflow, command.actor)
    operation = _OPERATIONS.get(type(command))
    if operation is None or (operation == "cancel" and _began(run.instance, command.actor)):
        return None
    return inoperable(operation, command.actor)


def _began(instance: Instance, actor: Actor) -> bool:
    """Return whether the actor started the flow, and may therefore cancel it; not for the workflow of an entity."""
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
