"""Number series: how a field such as `INV-{year}-{number:05}` numbers new entities.

The numbers are counted by the database, one counter for each org, entity type, field and period; this module
only reads patterns.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

SERIES_CHARACTERS_MAX: Final = 100
NUMBER_DIGITS_MAX: Final = 15
_PART: Final = re.compile(r"\{([^{}]*)\}")
_NUMBER: Final = re.compile(r"number(?::0([1-9][0-9]?))?")


@dataclass(frozen=True, slots=True)
class NumberSeries:
    """A pattern that was read: its text before and after the number, and the digits that the number has at least."""

    before: str
    after: str
    digits: int

    def period(self, at: datetime) -> str:
        """Return the period of the counter, in UTC: `2026-11`, `2026`, or empty where it never starts over."""
        day, parts = at.astimezone(UTC), self.before + self.after
        if "{month}" in parts:
            return f"{day:%Y-%m}"
        return f"{day:%Y}" if "{year}" in parts else ""

    def text(self, number: int, at: datetime) -> str:
        """Return the value of a field that draws this number."""
        before, after = (_dated(part, at) for part in (self.before, self.after))
        return f"{before}{number:0{self.digits}d}{after}"


def _dated(part: str, at: datetime) -> str:
    day = at.astimezone(UTC)
    return part.replace("{year}", f"{day:%Y}").replace("{month}", f"{day:%m}")


@lru_cache(maxsize=1_000)
def read_series(pattern: str) -> NumberSeries | str:
    """Return the series of a pattern, or what is wrong with it."""
    parts = _PART.findall(pattern)
    numbers = [match for match in _PART.finditer(pattern) if _NUMBER.fullmatch(match[1])]
    widths = [int(match[1] or 1) for part in parts if (match := _NUMBER.fullmatch(part))]
    unknown = [part for part in parts if part not in ("year", "month") and not _NUMBER.fullmatch(part)]
    problems = {
        f"it has at most {SERIES_CHARACTERS_MAX} characters, found {len(pattern)}": (
            len(pattern) > SERIES_CHARACTERS_MAX
        ),
        "it has printable characters only": not pattern.isprintable(),
        "a brace is not closed or not opened": any(brace in _PART.sub("", pattern) for brace in "{}"),
        f"`{{{''.join(unknown[:1])}}}` is none of {{number}}, {{number:05}}, {{year}} and {{month}}": bool(
            unknown
        ),
        f"{{number}} is expected once, found {len(numbers)} times": len(numbers) != 1,
        "{month} needs {year}: the same numbers would come again next year": (
            "month" in parts and "year" not in parts
        ),
        f"a number has at most {NUMBER_DIGITS_MAX} digits": max(widths, default=0) > NUMBER_DIGITS_MAX,
    }
    if wrong := next((message for message, is_so in problems.items() if is_so), None):
        return wrong
    return NumberSeries(pattern[: numbers[0].start()], pattern[numbers[0].end() :], widths[0])
