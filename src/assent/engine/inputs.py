"""What can happen to an instance. Whoever asks, it reaches the engine as one of these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from assent.model.actor import SYSTEM, Actor, Authority


@dataclass(frozen=True, slots=True)
class Input:
    """The common part: whose it is, and the id that makes it one of a kind."""

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
    """Somebody answers a step: an event of its own, or a transition of the entity."""

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
    """Whom a delegate stands in for; unsaid, whoever it can only be."""
    group: str | None = None
    """Which seat is meant, where somebody has several."""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reassign(Input):
    """Somebody else is asked instead."""

    request_id: UUID | None = None
    from_user: str = ""
    to_user: str = ""
    to_email: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Claim(Input):
    """One of several who are asked takes it on."""

    request_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Release(Input):
    """It is open again to all who are asked."""

    request_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class FormInput(Input):
    """Something is done about a form besides answering it."""

    step_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ClaimForm(FormInput):
    """One of several who may fill it in takes it on."""


@dataclass(frozen=True, slots=True)
class ReleaseForm(FormInput):
    """It is open again to all who may fill it in."""


@dataclass(frozen=True, slots=True)
class SaveDraft(FormInput):
    """What somebody has written so far, right or wrong."""

    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReassignForm(FormInput):
    """Somebody else is asked to fill it in."""

    from_user: str = ""
    to_user: str = ""
    to_email: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class EventArrived(Input):
    """What a step waited for under a key has come."""

    step_id: UUID | None = None
    data: Any = None
    outcome: str = "completed"


@dataclass(frozen=True, slots=True)
class RequestDecided(Input):
    """What was asked of an outside party has its results, or will never have them."""

    step_id: UUID | None = None
    request_id: UUID | None = None
    status: str = "completed"
    """`completed`, `failed` or `expired`."""
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TimerDue(Input):
    step_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Expired(Input):
    """The workflow's own time is over."""


@dataclass(frozen=True, slots=True)
class Drifted(Input):
    """Somebody else made a new version of the entity."""

    entity_version: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    amended_by: UUID | None = None
    """Set when a new entity takes the place of this locked one: the instance is cancelled (D5)."""
    authority: Authority | None = None
    """On whose behalf it was edited; unsaid, that of the tokens stays."""


@dataclass(frozen=True, slots=True)
class Cancel(Input):
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause(Input):
    reason: str = ""
    code: str = "PAUSED"


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
class Poke(Input):
    """Nothing new: whatever is ready goes on."""


@dataclass(frozen=True, slots=True)
class Unreadable(Input):
    """An event whose payload is not what its type promises: somebody has to look at it."""

    problem: str = ""


@dataclass(frozen=True, slots=True)
class Repin(Input):
    """The definition was compiled anew into an equal graph (D31)."""

    definition_id: UUID | None = None
    definition_version: int = 0
    definition_hash: str = ""
