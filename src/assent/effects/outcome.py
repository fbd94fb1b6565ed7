"""What became of an attempt to send an effect, and what follows from it. Pure.

delivered                                        → completed
failed, and may be tried again                   → failed, with the time of the next try
failed for good, or attempts used up             → dead letter
sent and no answer (ambiguous), and not allowed  → dead letter
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.settings import EffectSettings
from assent.model.backoff import backoff, jittered

BACKOFF_FACTOR: Final = 3
ERROR_CHARACTERS_MAX: Final = 2_000

Evidence = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delivered:
    """It arrived, and this is what came back."""

    evidence: Evidence = field(default_factory=dict)
    result: Any = None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """It did not arrive, or nobody can tell."""

    code: str
    message: str
    permanent: bool = False
    """Whether trying again can help nobody."""
    ambiguous: bool = False
    """Whether it was sent, and no answer came."""
    retry_after: timedelta | None = None
    """When the receiver wants to be asked again."""
    evidence: Evidence = field(default_factory=dict)


Outcome = Delivered | Undelivered
Status = Literal["completed", "failed", "dead_letter"]


@dataclass(frozen=True, slots=True)
class EffectResult:
    """What is written down about an attempt."""

    effect: ClaimedEffect
    outcome: Outcome
    status: Status
    retry_after: timedelta | None = None
    """How long to wait before the next attempt, by the database's clock."""

    @property
    def has_ended(self) -> bool:
        return self.status != "failed"

    @property
    def is_ambiguous(self) -> bool:
        return isinstance(self.outcome, Undelivered) and self.outcome.ambiguous

    @property
    def error(self) -> str | None:
        if isinstance(self.outcome, Delivered):
            return None
        sent = " (sent, and no answer came)" if self.outcome.ambiguous else ""
        text = f"{self.outcome.code}: {self.outcome.message}"[:ERROR_CHARACTERS_MAX] + sent
        # PostgreSQL keeps no NUL and no half of a character, and receivers may answer with anything.
        return text.replace("\0", "�").encode("utf-8", errors="replace").decode()

    @property
    def evidence(self) -> dict[str, Any]:
        """What the step shows of it; when it was is added by the database."""
        found: dict[str, Any] = {"outcome": self.status, "attempt": self.effect.attempts}
        if isinstance(self.outcome, Undelivered):
            found |= {"error": self.error, "ambiguous": self.outcome.ambiguous}
        return found | dict(self.outcome.evidence)


def next_state(effect: ClaimedEffect, outcome: Outcome, settings: EffectSettings) -> EffectResult:
    """What is to be written down about this attempt."""
    if isinstance(outcome, Delivered):
        return EffectResult(effect, outcome, "completed")
    forbidden = outcome.ambiguous and not effect.retry_ambiguous
    if outcome.permanent or forbidden or effect.attempts >= effect.max_attempts:
        return EffectResult(effect, outcome, "dead_letter")
    return EffectResult(effect, outcome, "failed", _wait(effect.attempts, outcome, settings))


def _wait(attempts: int, outcome: Undelivered, settings: EffectSettings) -> timedelta:
    longest = timedelta(milliseconds=settings.retry_after_max_ms)
    asked = min(outcome.retry_after or timedelta(), longest)
    shortest, most = (timedelta(milliseconds=ms) for ms in (settings.backoff_min_ms, settings.backoff_max_ms))
    return max(asked, jittered(backoff(attempts, shortest, most, BACKOFF_FACTOR)))
