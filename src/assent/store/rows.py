"""Rows as statements return and take them."""

from collections.abc import Iterable
from typing import Any, Protocol


class Row(Protocol):
    """A row that was read, by column: a record of the driver, or any mapping."""

    def __getitem__(self, column: str, /) -> Any: ...

    def get(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...

    def items(self) -> Iterable[tuple[str, Any]]: ...


RowValues = dict[str, Any]
"""A row to be written, by column."""
