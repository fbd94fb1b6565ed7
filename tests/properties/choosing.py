"""Where generators get their choices from: a seeded random source, or hypothesis, which can shrink them."""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Chooser(Protocol):
    def number(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        ...


class Seeded:
    """Choices that a seed decides; fast, and a failing seed says it all."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class Drawn:
    """Choices that hypothesis makes; the first of every sequence is the simplest."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def number(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))


def pick(chooser: Chooser, options: Sequence[T]) -> T:
    return options[chooser.number(0, len(options) - 1)]


def chance(chooser: Chooser, percent: int) -> bool:
    return chooser.number(0, 99) >= 100 - percent


def shuffled(chooser: Chooser, items: Sequence[T]) -> list[T]:
    rest, found = list(items), []
    while rest:
        found.append(rest.pop(chooser.number(0, len(rest) - 1)))
    return found
