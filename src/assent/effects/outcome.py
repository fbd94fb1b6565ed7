"""What is written about an attempt to send an effect: the error, and the evidence that its step shows. Pure."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from assent.effects.claimed_effect import ClaimedEffect
from assent.effects.settings import EffectSettings
from assent.jobs.job import AttemptResult, Failed, JobOutcome, RetryPolicy, next_state
from assent.model.problems import clean_error_text

BACKOFF_FACTOR: Final = 3
UNANSWERED: Final = " (sent, and no answer came)"

EffectResult = AttemptResult[ClaimedEffect]


def retry_policy(settings: EffectSettings) -> RetryPolicy:
    """Return how long to wait after attempts that failed; a receiver may ask for more."""
    shortest, longest, asked = (
        timedelta(milliseconds=ms)
        for ms in (settings.backoff_min_ms, settings.backoff_max_ms, settings.retry_after_max_ms)
    )
    return RetryPolicy(shortest, longest, BACKOFF_FACTOR, asked)


def effect_result(effect: ClaimedEffect, outcome: JobOutcome, policy: RetryPolicy) -> EffectResult:
    """Return what is to be written about this attempt."""
    result = next_state(effect, outcome, policy)
    evidence: dict[str, Any] = {"outcome": result.status, "attempt": effect.attempt}
    if not isinstance(outcome, Failed):
        return replace(result, output=evidence | dict(outcome.evidence))
    text = clean_error_text(f"{outcome.code}: {outcome.message}")
    error = text + UNANSWERED if outcome.ambiguous else text
    failure = {"error": error, "ambiguous": outcome.ambiguous}
    return replace(result, error=error, output=evidence | failure | dict(outcome.evidence))
