"""An effect: something to be sent to another system, once, by the effects worker (WF-10)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
    """The name under which an operation over HTTP is among an application's operations."""
    return f"openapi:{operation}"
