"""Cargo: what an outside party sends back is a pointer, `version://assent/<id>`; what it points to is kept elsewhere.

One thing has one spelling, for it is received once. `assent.is_cargo` in the database says the same.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args
from uuid import UUID

from assent.model.parse import listed, shown
from assent.model.problems import Problem

CargoKind = Literal["version", "document", "entity", "screening", "external"]

OURS: Final = "assent"
"""Where a thing of ours is; an outside system has a name of its own."""

_KINDS: Final[tuple[str, ...]] = get_args(CargoKind)
_POINTER: Final = re.compile(r"([a-z]+)://([a-z0-9][a-z0-9._-]{0,62})/([!-~]{1,255})")
_HINT: Final = "version://assent/<id>, or external://<system>/<id> for something of another system"


@dataclass(frozen=True, slots=True)
class Cargo:
    """A pointer to something of ours by its id, or to something of an outside system."""

    kind: CargoKind
    place: str
    """`assent`, or the name of the outside system."""
    id: str

    def __str__(self) -> str:
        return f"{self.kind}://{self.place}/{self.id}"


def parse_cargo(text: object) -> Cargo | Problem:
    """The cargo that a text spells, or what is wrong with it."""
    found = _POINTER.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return _bad(f"expected a pointer, found {shown(text)}")
    kind, place, key = found.groups()
    if kind not in _KINDS:
        return _bad(f"expected {listed(_KINDS)}, found {shown(kind)}")
    if kind != "external" and not (place == OURS and _is_id(key)):
        return _bad(f"expected {kind}://{OURS}/ and an id in lower case, found {shown(text)}")
    return Cargo(cast(CargoKind, kind), place, key)


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _bad(message: str) -> Problem:
    return Problem("BAD_CARGO", message, ("cargo",), _HINT)
