"""Inputs: what can happen to an instance, by commands, events and timers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from assent.model.actor import SYSTEM, Actor, Authority

PAUSED: Final = "PAUSED"
"""The code of an instance that an operator has paused; any other is an incident."""


@dataclass(frozen=True, slots=True)
class Input:
    """The fields of every input: its id and its actor."""

    id: UUID
    """Of the command or the event; control steps carry it in their token (D25)."""
    actor: Actor = SYSTEM


@dataclass(frozen=True, slots=True)
class Start(Input):
    data: Mapping[str, Any] = field(default_factory=dict)
    transition: str | None = None
    """Begin with a transition from the entity's present state: an earlier instance has ended (D18)."""
    granted: bool = False
    """Whether its right was asked before, when the event was caused that begins it."""
    authority: Authority | None = None
    """On whose behalf it begins; the actor's own, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Advance(Input):
    """A person answers a step: with an event of the step, or a transition of the entity."""

    event: str = "completed"
    data: Mapping[str, Any] = field(default_factory=dict)
    step: str | None = None
    """The name or id of the node that is meant, where several rest (D32)."""


@dataclass(frozen=True, slots=True)
class Decide(Input):
    """An approver answers."""

    request_id: UUID | None = None
    answer: str = "approved"
    """`approved`, `rejected`, `abstained`, or an outcome of the node's own."""
    reason: str | None = None
    on_behalf_of: str | None = None
    """The person that a delegate stands in for; without it, the only possible one."""
    group: str | None = None
    """The group of the seat, for a person with several."""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reassign(Input):
    """Another person is asked instead."""

    request_id: UUID | None = None
    from_user: str = ""
    to_user: str = ""
    to_email: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Claim(Input):
    """One of several approvers takes it on."""

    request_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Release(Input):
    """It is open again to all who are asked."""

    request_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class FormInput(Input):
    """A command about a form other than its answer."""

    step_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ClaimForm(FormInput):
    """One of several who may fill it in takes it on."""


@dataclass(frozen=True, slots=True)
class ReleaseForm(FormInput):
    """It is open again to all who may fill it in."""


@dataclass(frozen=True, slots=True)
class SaveDraft(FormInput):
    """The unfinished data of a form, valid or not."""

    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReassignForm(FormInput):
    """Another person is asked to fill it in."""

    from_user: str = ""
    to_user: str = ""
    to_email: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class EventArrived(Input):
    """The event that a step waited for has arrived."""

    step_id: UUID | None = None
    data: Any = None
    outcome: str = "completed"
    hops: int = 0
    """How many events of steps led here; 0 if it comes from outside."""
    people: tuple[str, ...] = ()
    """Those whose work it brings."""


@dataclass(frozen=True, slots=True)
class RequestDecided(Input):
    """An outside request has its results or a part of them, or will never have them."""

    step_id: UUID | None = None
    request_id: UUID | None = None
    status: str = "completed"
    """`completed`, `partial`, `failed` or `expired`."""
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    people: tuple[str, ...] = ()
    """Those who brought its results."""


@dataclass(frozen=True, slots=True)
class RequirementChanged(Input):
    """Documents that the instance requires were handed in, reviewed, waived, reset, or have expired."""


@dataclass(frozen=True, slots=True)
class TimerDue(Input):
    step_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Expired(Input):
    """The time limit of the workflow is over."""


@dataclass(frozen=True, slots=True)
class Drifted(Input):
    """Another writer made a new version of the entity."""

    entity_version: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    amended_by: UUID | None = None
    """Set when a new entity takes the place of this locked one: the instance is cancelled (D5)."""
    authority: Authority | None = None
    """The authority of the edit; without it, that of the tokens stays."""


@dataclass(frozen=True, slots=True)
class Cancel(Input):
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause(Input):
    reason: str = ""
    code: str = PAUSED


@dataclass(frozen=True, slots=True)
class Resume(Input):
    pass


@dataclass(frozen=True, slots=True)
class RetryInstance(Input):
    """Try what failed again; without a name, everything that failed."""

    step: str | None = None


@dataclass(frozen=True, slots=True)
class Skip(Input):
    """An admin's way past a step, by an edge that is named."""

    step: str = ""
    edge: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CancelToken(Input):
    token: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ForceFail(Input):
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EditVariables(Input):
    """An operator changes variables of a paused instance, and becomes one of its originators."""

    data: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """The names of the variables, for the audit log; their values are in the step."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Poke(Input):
    """Nothing new: tokens that are ready go on."""


@dataclass(frozen=True, slots=True)
class Unreadable(Input):
    """An event whose payload does not fit its type: a case for an operator."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class Repin(Input):
    """The definition was compiled again into an equal graph (D31)."""

    definition_id: UUID | None = None
    definition_version: int = 0
    definition_hash: str = ""
