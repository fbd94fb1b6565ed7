"""What lists ask of their reader: which instances, and what came of them, they may see."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Reader:
    """A person who reads a list, as `assent.is_readable` in the database takes it."""

    person: str
    at: datetime
    """The time at which delegations are read."""
    hidden_types: Sequence[str] = ()
    """The entity types that they may not see."""
    all_flows: bool = False
    definitions: Sequence[UUID] = ()
    """The flows that they may read without taking part."""


def reader_columns(reader: Reader | None) -> tuple[Any, ...]:
    """Return the arguments of list statements; the first is whether there is a reader, else all rows are seen."""
    if reader is None:
        return False, [], True, [], "", None
    hidden, definitions = list(reader.hidden_types), list(reader.definitions)
    return True, hidden, reader.all_flows, definitions, reader.person, reader.at
