"""Where claims of a queue begin to read its index.

A row that was claimed leaves an entry in the index of what waits until VACUUM has removed it, and VACUUM removes
nothing that another session's snapshot may still see. While a dump or a report runs, each claim that reads from the
beginning steps over all entries of what was claimed meanwhile.
"""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

Row = TypeVar("Row")
Find = Callable[[datetime], Awaitable[tuple[Sequence[Row], datetime | None]]]
"""Returns what is due from a time on, and the time of the first of it: None where not all was looked at."""

BEGINNING: Final = datetime.min.replace(tzinfo=UTC)

WHOLE_LOOKS: Final = 1 / 20
"""The part of the time that may go into looks from the beginning while looks from the floor find something."""


@dataclass
class ClaimFloor:
    """A time before which nothing was due in a queue when it was last read from the beginning.

    What comes later with an earlier time (its transaction took long, or it was given back) is found by the next look
    from the beginning: at the latest when there is nothing else.
    """

    time: datetime = BEGINNING
    _looked_s: float = -math.inf
    _took_s: float = 0.0

    async def look(self, find: Find[Row]) -> Sequence[Row]:
        """Return what is due: from the floor on, or from the beginning where that finds nothing or is cheap."""
        if self.time > BEGINNING and time.monotonic() - self._looked_s < self._took_s / WHOLE_LOOKS:
            rows, first = await find(self.time)
            if rows:
                self.time = max(self.time, first) if first is not None else BEGINNING
                return rows
        began_s = time.monotonic()
        rows, first = await find(BEGINNING)
        self._looked_s = time.monotonic()
        self._took_s = self._looked_s - began_s
        self.time = first if first is not None else BEGINNING
        return rows
