"""Times in queries and bodies: with their zone, and in years that every calendar and PostgreSQL can count."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime

_FIRST: Final = datetime(1900, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2999, 12, 31, tzinfo=UTC)


def _countable(moment: datetime) -> datetime:
    if not _FIRST <= moment <= _LAST:
        raise ValueError(f"expected a time from {_FIRST.year} to {_LAST.year}")
    return moment


Moment = Annotated[AwareDatetime, AfterValidator(_countable)]
