"""Values as evidence: what an evaluation read, in JSON, and never more of it than a step should keep."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any, Final

from assent.model.canonical import INTEGER_MAX

EVIDENCE_ITEMS_MAX: Final = 50
"""A list of ten thousand trusted vendors is not copied into every step that looked into it."""
EVIDENCE_CHARACTERS_MAX: Final = 1000


def as_evidence(value: object) -> Any:
    """`value` as JSON; what is too long is cut, and says how much is missing."""
    if value is None or isinstance(value, bool) or _is_kept(value):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, set | frozenset):
        # Sets come in another order in every process; evidence must not.
        return _list(sorted(value, key=str))
    return _list(value) if isinstance(value, list | tuple) else _text(str(value))


def _is_kept(value: object) -> bool:
    """Whether this is a number that every JSON reader gives back unchanged."""
    if isinstance(value, int):
        return abs(value) <= INTEGER_MAX
    return isinstance(value, float) and math.isfinite(value)


def _object(value: Mapping[Any, Any]) -> dict[str, Any]:
    kept = {str(key): as_evidence(item) for key, item in islice(value.items(), EVIDENCE_ITEMS_MAX)}
    missing = len(value) - len(kept)
    return kept | {"…": f"{missing} more"} if missing > 0 else kept


def _list(value: Sequence[Any]) -> list[Any]:
    kept = [as_evidence(item) for item in islice(value, EVIDENCE_ITEMS_MAX)]
    missing = len(value) - len(kept)
    return [*kept, f"… {missing} more"] if missing > 0 else kept


def _text(text: str) -> str:
    missing = len(text) - EVIDENCE_CHARACTERS_MAX
    return f"{text[:EVIDENCE_CHARACTERS_MAX]}… {missing} more" if missing > 0 else text
