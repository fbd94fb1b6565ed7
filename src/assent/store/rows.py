"""Rows as statements return and take them, and the codec between rows and dataclasses."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

_FIELD_NAMES: Final[dict[type[Any], tuple[str, ...]]] = {}


class Row(Protocol):
    """A row that was read, by column: a record of the driver, or any mapping."""

    def __getitem__(self, column: str, /) -> Any: ...

    def get(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...

    def items(self) -> Iterable[tuple[str, Any]]: ...


RowValues = dict[str, Any]
"""A row to be written, by column."""


def from_row(cls: type[T], row: Row, **values: Any) -> T:
    """Return a dataclass from the columns that have the names of its fields; `values` are those that differ."""
    columns = set(row.keys())
    for name in _field_names(cls):
        if name in columns and name not in values:
            values[name] = row[name]
    return cls(**values)


def to_row(value: Any, only: Iterable[str] | None = None, **columns: Any) -> RowValues:
    """Return the fields of a dataclass as columns, all or `only` some; `columns` are those that differ."""
    names = _field_names(type(value)) if only is None else only
    return {name: getattr(value, name) for name in names if name not in columns} | columns


def _field_names(cls: type[Any]) -> tuple[str, ...]:
    names = _FIELD_NAMES.get(cls)
    if names is None:
        names = _FIELD_NAMES[cls] = tuple(field.name for field in fields(cls) if field.init)
    return names
