"""What a transaction has locked and read already, so that it is not asked for again."""

from dataclasses import dataclass, field

from assent.kernel.rules import RuleBook
from assent.model.keys import EntityKey
from assent.model.mutation import Entity

Kind = tuple[str, str]
"""An org and an entity type."""


@dataclass(slots=True)
class LockedRows:
    """Entities under lock as they stand now, and the rules of some types."""

    entities: dict[EntityKey, Entity] = field(default_factory=dict)
    rules: dict[Kind, RuleBook] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget everything: code of the application had the connection and may have written with it."""
        self.entities.clear()
        self.rules.clear()
