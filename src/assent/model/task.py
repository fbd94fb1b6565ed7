"""A task: background work that our own workers run (D14)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
