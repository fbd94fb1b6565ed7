"""The origin of a command: how, from where and why an actor acts, for the audit log."""

from dataclasses import dataclass
from typing import Any, Final

from assent.model.actor import Actor

BY_WORKFLOWS: Final = "workflow"
"""The channel of steps that a timer or an event moves, and no command."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The way in that a command took."""

    channel: str = "python"
    """`http`, `cli`, `python`, `workflow`; `sql` by default."""
    place: str | None = None
    """An address, a host."""
    reason: str | None = None
    """Why, where the command itself does not say."""


@dataclass(frozen=True, slots=True)
class By:
    """Who acts in a transaction, and by which way: what the database notes when they administer something."""

    actor: Actor
    origin: Origin = Origin()
    trace: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "actor_id": self.actor.id,
            "actor_kind": self.actor.kind,
            "actor_roles": sorted(self.actor.roles),
            "channel": self.origin.channel,
            "place": self.origin.place,
            "reason": self.origin.reason,
            "trace_id": self.trace,
        }
