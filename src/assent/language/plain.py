"""Values of expressions as JSON keeps them: whole, with times and decimals as text."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

_KEPT: Final = frozenset({str, int, bool, float, type(None)})


def as_json(value: Any) -> Any:
    """A result in the form in which it can be kept, sent and read back."""
    if type(value) in _KEPT:
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value
