"""Tables for people: whole where they are read by a program, fitted to the width of a terminal."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from rich.table import Table
from rich.text import Text

from assent.cli.report import console, safe

_WIDTH_OF_FILES: Final = 10_000
"""What is not a terminal is not cut."""
TEXT_CHARACTERS_MAX: Final = 100

Cell = str | Text | None

STATUS_STYLES: Final = {
    "running": "green",
    "completed": "green",
    "approved": "green",
    "paused": "yellow",
    "pending": "yellow",
    "failed": "red",
    "rejected": "red",
    "dead": "red",
    "cancelled": "dim",
    "void": "dim",
}


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Collection[str] = ()) -> Table:
    """Columns that say something; what comes from data cannot steer the terminal."""
    cells = [[cell if isinstance(cell, Text) else Text(safe(cell or "")) for cell in row] for row in rows]
    kept = [number for number in range(len(headings)) if any(row[number].plain for row in cells)]
    found = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (headings[number] for number in kept):
        found.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in cells:
        found.add_row(*(row[number] for number in kept))
    return found


def print_table(found: Table) -> None:
    out = console()
    if not out.is_terminal:
        out.width = _WIDTH_OF_FILES
    out.print(found)


def status_text(status: str) -> Text:
    return Text(status, STATUS_STYLES.get(status, ""))


def moment(at: datetime | None) -> str:
    """A time as the clock on the reader's wall shows it."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at is not None else ""


def length(span: timedelta) -> str:
    """A length of time, roughly."""
    seconds = int(span.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def one_line(text: str | None, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """The first line of a longer text."""
    first, _, more = (text or "").strip().partition("\n")
    return f"{first[:characters_max]}…" if more or len(first) > characters_max else first
