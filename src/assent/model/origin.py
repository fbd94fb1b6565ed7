"""How, from where and why somebody acts: what the audit log says besides who and what."""

from dataclasses import dataclass
from typing import Any, Final

from assent.model.actor import Actor

BY_WORKFLOWS: Final = "workflow"
"""The channel of what steps write when a timer or an event moves them, and nobody's command."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The way in that a command took."""

    channel: str = "python"
    """`http`, `cli`, `python`, `workflow`; `sql` where nobody said."""
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
