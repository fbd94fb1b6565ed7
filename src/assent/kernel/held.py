"""What a transaction has locked and read already, so that it is not asked for again."""

from dataclasses import dataclass, field
from uuid import UUID

from assent.kernel.rules import RuleBook
from assent.model.mutation import Entity

Place = tuple[str, UUID]
"""An org and an entity."""
Kind = tuple[str, str]
"""An org and an entity type."""


@dataclass(slots=True)
class Held:
    """Entities under lock as they stand now, and the rules of some types."""

    entities: dict[Place, Entity] = field(default_factory=dict)
    rules: dict[Kind, RuleBook] = field(default_factory=dict)

    def forget(self) -> None:
        """Somebody else's code had the connection and may have written with it."""
        self.entities.clear()
        self.rules.clear()
