"""Ids as people type them: whole, or as much of the beginning as is needed to tell them apart."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

import typer

if TYPE_CHECKING:
    from assent.store.database import Connection

    Find = Callable[[Connection, str, UUID, UUID, int], Awaitable[Sequence[UUID]]]

_DIGITS: Final = re.compile(r"[0-9a-f]{4,32}")
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class GivenId:
    """What was typed, and the first and the last id that begin so."""

    text: str
    first: UUID
    last: UUID


def given_id(text: str) -> GivenId:
    digits = text.strip().lower().replace("-", "")
    if not _DIGITS.fullmatch(digits):
        raise typer.BadParameter(f"expected an id or at least 4 digits of its beginning, found {text!r}")
    return GivenId(text, UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f")))


async def find_one(
    connection: "Connection", org_id: str, noun: str, given: GivenId, find: "Find"
) -> UUID | None:
    """The one that is meant, if there is one; refuses where there are several."""
    from assent.model.mutation import Refused, Rejection

    found = await find(connection, org_id, given.first, given.last, _SHOWN_MAX)
    if len(found) > 1:
        message = f"several begin with {given.text}: {', '.join(map(str, found))}"
        raise Refused(Rejection("AMBIGUOUS_ID", message, (noun,), hint="type more of the id"))
    return found[0] if found else None
