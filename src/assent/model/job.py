"""What a step leaves to workers: effects, sent to another system once (WF-10), and tasks of our own (D14)."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal
from uuid import UUID

from assent.model.canonical import canonical_hash
from assent.model.ids import derived_id, effect_key
from assent.model.names import is_blank
from assent.model.problems import Invalid, Problem
from assent.model.timing import require_duration

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


RESOURCES_OF_TASK_MAX: Final = 10
RESOURCE_CHARACTERS_MAX: Final = 100
RATE_KEY_CHARACTERS_MAX: Final = 200
RATE_MAX: Final = 100_000
CONCURRENCY_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many starts of tasks in any period of a length: `RateLimit(100, per="1m")`. Each org has its own."""

    max: int
    _: KW_ONLY
    per: str | timedelta
    key: str | None = None
    """What is counted together; without it, the tasks of the type."""
    by: str | None = None
    """Declared on a type: the part of the input by whose values tasks are counted apart, such as `customer`."""

    @property
    def period(self) -> timedelta:
        """How long a start counts; raise `Invalid` for what is no duration."""
        return require_duration(self.per)


@dataclass(frozen=True, slots=True)
class Throttle:
    """What limits when a task may run: the resources that it uses, and the rate at which tasks of a key may start."""

    resources: tuple[str, ...] = ()
    """In the order of their names, each once."""
    rate_key: str | None = None
    rate_max: int | None = None
    rate_period: timedelta | None = None

    @property
    def id(self) -> UUID:
        """The same for tasks that are limited by the same."""
        period_s = None if self.rate_period is None else self.rate_period.total_seconds()
        content = [list(self.resources), self.rate_key, self.rate_max, period_s]
        return derived_id("throttle", canonical_hash(content))

    def with_resources(self, names: Iterable[str]) -> "Throttle":
        """Return the same with more resources."""
        return replace(self, resources=tuple(sorted({*self.resources, *names})))


def require_rate_limit(limit: RateLimit, *, on_type: bool) -> RateLimit:
    """Return a rate limit that is one; raise `Invalid` for what cannot be one."""
    path = ("rate_limit",)
    length = limit.period
    if not 1 <= limit.max <= RATE_MAX or length <= timedelta():
        message = f"1 to {RATE_MAX} starts in a period were expected, found {limit.max} in {length}"
        raise Invalid([Problem("OUT_OF_RANGE", message, path)])
    if on_type and limit.key is not None and limit.by is not None:
        raise Invalid([Problem("BAD_VALUE", "a rate limit has a key or counts by the input, not both", path)])
    if not on_type and (limit.key is None or limit.by is not None):
        raise Invalid([Problem("BAD_VALUE", "the rate limit of a submission needs a `key`", path)])
    if limit.key is not None and (is_blank(limit.key) or len(limit.key) > RATE_KEY_CHARACTERS_MAX):
        message = f"a key of 1 to {RATE_KEY_CHARACTERS_MAX} characters was expected, found {limit.key!r}"
        raise Invalid([Problem("BAD_VALUE", message, (*path, "key"))])
    return limit


def require_resources(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the resources of a task, in order; raise `Invalid` for too many, or for what is no name."""
    found = tuple(sorted(set(names)))
    if len(found) > RESOURCES_OF_TASK_MAX:
        message = f"at most {RESOURCES_OF_TASK_MAX} resources of a task were expected, found {len(found)}"
        raise Invalid([Problem("OUT_OF_RANGE", message, ("resources",))])
    for name in found:
        if is_blank(name) or len(name) > RESOURCE_CHARACTERS_MAX:
            message = f"a name of 1 to {RESOURCE_CHARACTERS_MAX} characters was expected, found {name!r}"
            raise Invalid([Problem("BAD_VALUE", message, ("resources",))])
    return found


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task that a step submits. The step that awaits it rests until it has ended (D30)."""

    type: str
    input: Mapping[str, Any]
    priority: int
    attempts_max: int
    awaited: bool = True
    throttle: Throttle | None = None
    delay: timedelta | None = None
    """How long after the step is entered it is to run, at the earliest."""


@dataclass(frozen=True, slots=True)
class Submittable:
    """What an application says to a step that wants a task: the input as it is kept, and what its type declares."""

    input: Mapping[str, Any]
    priority: int
    attempts_max: int
    throttle: Throttle | None = None
