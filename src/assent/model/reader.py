"""What lists ask of their reader: which instances, and what came of them, they may see."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who reads a list: `assent.is_readable` in the database asks by these."""

    person: str
    at: datetime
    """Who stands in for whom is asked at this time."""
    hidden_types: Sequence[str] = ()
    """The entity types that they may not see."""
    all_flows: bool = False
    definitions: Sequence[UUID] = ()
    """The flows that they may read without taking part."""


def reader_columns(reader: Reader | None) -> tuple[Any, ...]:
    """What the statements of lists take of a reader, the first says whether there is one: whoever has none sees all."""
    if reader is None:
        return False, [], True, [], "", None
    hidden, definitions = list(reader.hidden_types), list(reader.definitions)
    return True, hidden, reader.all_flows, definitions, reader.person, reader.at
