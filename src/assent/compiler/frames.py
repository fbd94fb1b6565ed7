"""Values in the making: a list or mapping that is being read, and the place of everything that was."""

from dataclasses import dataclass, field
from typing import Any

from assent.model.canonical import JsonValue
from assent.model.problems import Path, Position


@dataclass(slots=True)
class SourcePlace:
    """Where a value stands, where its key stands, and the places of its parts."""

    position: Position
    key: Position | None = None
    parts: dict[str | int, "SourcePlace"] = field(default_factory=dict)
    is_scalar: bool = False

    @property
    def shown_at(self) -> Position:
        """A scalar is pointed at itself, a list or mapping at the key that names it."""
        return self.position if self.is_scalar or self.key is None else self.key


@dataclass(slots=True)
class OpenList:
    place: SourcePlace
    step: Path
    value: list[Any] = field(default_factory=list)

    @property
    def next_step(self) -> Path:
        return (len(self.value),)

    def add(self, value: JsonValue, place: SourcePlace) -> None:
        self.place.parts[len(self.value)] = place
        self.value.append(value)


@dataclass(slots=True)
class OpenMapping:
    place: SourcePlace
    step: Path
    value: dict[str, Any] = field(default_factory=dict)
    wants_key: bool = True
    key: str | None = None
    """The key that waits for its value; None also when that key was refused, and the value goes nowhere."""
    key_position: Position | None = None

    @property
    def next_step(self) -> Path:
        return () if self.key is None else (self.key,)

    def expect(self, key: str | None, position: Position) -> None:
        self.key, self.key_position, self.wants_key = key, position, False

    def add(self, value: JsonValue, place: SourcePlace) -> None:
        if self.key is not None:
            place.key = self.key_position
            self.value[self.key] = value
            self.place.parts[self.key] = place
        self.key, self.wants_key = None, True
