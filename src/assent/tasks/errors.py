"""What a task's function raises to say how it goes on; whatever else it raises is tried again."""

from datetime import timedelta

from assent.model.duration import require_duration


class Retry(Exception):
    """Not now: try again, after a while where one is given. It is an attempt all the same."""

    def __init__(
        self, message: str = "it asked to be tried again", *, after: str | timedelta | None = None
    ) -> None:
        super().__init__(message)
        self.after = None if after is None else require_duration(after)


class GiveUp(Exception):
    """Trying again helps nobody: the task is dead at once."""


class ClaimLost(Exception):
    """The task is not in our hands any more: it was cancelled, or its worker was taken for gone. Write nothing."""
