"""What a step leaves to workers: effects, sent to another system once (WF-10), and tasks of our own (D14)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from assent.model.ids import effect_key

Channel = Literal["email", "sms", "in_app", "chat"]
"""The channels by which people are notified."""

EffectType = Literal["webhook", "email", "sms", "in_app", "chat", "integration"]

ATTEMPTS_MAX = 8
"""How often an effect is tried when its node does not say; with the backoff, about an hour and a half."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a step wants to be sent. The step that awaits it rests until its answer is there (D30)."""

    type: EffectType
    payload: Mapping[str, Any]
    awaited: bool = False
    retry_ambiguous: bool = True
    """Whether it may be sent again after an attempt that may have arrived: sent, and no answer came."""
    attempts_max: int = ATTEMPTS_MAX
    identity: Mapping[str, Any] | None = None
    """What tells it from the step's other effects, where its payload holds times or ids of the moment."""

    def key(self, key_of_step: str) -> str:
        """WF-11: also what the receiver gets to see as `Idempotency-Key`."""
        return effect_key(key_of_step, self.type, self.payload if self.identity is None else self.identity)


@dataclass(frozen=True, slots=True)
class OutsideWork:
    """What an operation answers that cannot be run inside a transaction: the effects worker is to run it."""

    payload: Mapping[str, Any]
    retry_ambiguous: bool = True
    """What is right for such a call, where its node does not say."""


def openapi_name(operation: str) -> str:
    """Return the name under which an operation over HTTP is among an application's operations."""
    return f"openapi:{operation}"


PRIORITY: Final = 128
"""Of tasks that say nothing; from 0 to 255, the higher the sooner."""
PRIORITY_MAX: Final = 255

TASK_ATTEMPTS_MAX: Final = 8
"""How often a task is tried when its type does not say."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task that a step submits. The step that awaits it rests until it has ended (D30)."""

    type: str
    input: Mapping[str, Any]
    priority: int
    attempts_max: int
    awaited: bool = True


@dataclass(frozen=True, slots=True)
class Submittable:
    """What an application says to a step that wants a task: the input as it is kept, and what its type declares."""

    input: Mapping[str, Any]
    priority: int
    attempts_max: int
