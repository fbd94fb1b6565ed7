"""Turns of orgs in claims: a claim looks at a limited number of orgs, and the next one goes on behind the last."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

FIRST: Final = ""
"""Before every org."""

Claim = Callable[[str], Awaitable[Sequence[Any]]]
"""Claim what is due in orgs behind one, in the order of their ids; every org that was looked at has a row."""


@dataclass
class OrgRotation:
    """The org at which a worker's last claim ended. Not shared between processes: each goes round by itself."""

    after: str = FIRST

    async def claim(self, claim: Claim, orgs_max: int, column: str) -> list[Any]:
        """Return what the next orgs gave, going round until one gave something or all were looked at.

        `column` is null in the row of an org that gave nothing.
        """
        went_round = self.after == FIRST
        while True:
            rows = await claim(self.after)
            orgs = {row["org_id"] for row in rows}
            self.after = rows[-1]["org_id"] if len(orgs) >= orgs_max else FIRST
            found = [row for row in rows if row[column] is not None]
            if found or (self.after == FIRST and went_round):
                return found
            went_round = went_round or self.after == FIRST
