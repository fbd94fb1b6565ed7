"""Output on a terminal: problems with their lines, tables, JSON documents and progress bars."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from assent.model.problems import TOO_MANY, Position, Problem

if TYPE_CHECKING:
    from assent.compiler.source import Source

PROBLEMS_SHOWN_MAX = 200
LINE_CELLS_MAX = 100
"""A longer line is cut around the column that is marked."""


def console(*, stderr: bool = False) -> Console:
    """Return a console that colours only terminals and never breaks lines."""
    return Console(stderr=stderr, soft_wrap=True, highlight=False, emoji=False, markup=False)


def print_json(value: object, *, stderr: bool = False) -> None:
    """Print one JSON document, on standard output unless it says why there is none."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain), err=stderr)


def print_body(body: Any) -> None:
    """Print a body as HTTP returns it; null in place of one that the caller may not read."""
    print_json(body.model_dump(mode="json") if hasattr(body, "model_dump") else body)


def print_change(body: Any, done: str, *, json: bool) -> None:
    """Print what a command changed: its body as HTTP returns it, or a line that says what was done."""
    if json:
        print_body(body)
    else:
        console().print(f"✓ {safe(done)}")


def print_items(page: Any, *, json: bool, show: Callable[[Sequence[Any]], Table], none: str) -> None:
    """Print a page of a list: as HTTP returns it, or as a table."""
    items = page["items"]
    if json:
        print_json(page)
    elif items:
        print_table(show(items))
        print_more(page["next"])
    else:
        console().print(none, style="dim")


def print_more(cursor: str | None) -> None:
    """Say how to go on where a page does not end the list."""
    if cursor is not None:
        console().print(f"There is more: --cursor {cursor}", style="dim")


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def print_problems(problems: Sequence[Problem], sources: "Sequence[Source]", *, stderr: bool = False) -> None:
    """Print the problems in reading order, each with its line; a screen is no place for thousands of them."""
    by_name = {source.name: source for source in sources}
    out = console(stderr=stderr)
    for problem in in_reading_order(problems)[:PROBLEMS_SHOWN_MAX]:
        out.print(report(problem, by_name.get(problem.source or "")))
    if len(problems) > PROBLEMS_SHOWN_MAX:
        out.print(f"… and {len(problems) - PROBLEMS_SHOWN_MAX:,} more; --json gives all of them")


def print_summary(problems: Sequence[Problem], what: str, *, stderr: bool = False) -> None:
    console(stderr=stderr).print(summary(problems, what))


def in_reading_order(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda p: (p.source or "", p.position or Position(0, 0), p.code, p.message))


def report(problem: Problem, source: "Source | None") -> Text:
    """Return one problem as text with style."""
    text = Text()
    if problem.source:
        text.append(safe(_place(problem)), "bold").append(": ")
    text.append(problem.code, "red").append(" ").append(safe(problem.message))
    if source is not None and problem.position is not None:
        text.append(_excerpt(source.line(problem.position.line), problem.position))
    if problem.hint:
        text.append("\n  hint: ", "cyan").append(safe(problem.hint))
    return text


def summary(problems: Sequence[Problem], what: str) -> Text:
    if not problems:
        return Text("✓ ", "green").append(what)
    at_least = "at least " if any(problem.code == TOO_MANY for problem in problems) else ""
    return Text("✗ ", "red").append(f"{at_least}{counted(len(problems), 'problem')} in {what}")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _place(problem: Problem) -> str:
    if problem.position is None:
        return str(problem.source)
    return f"{problem.source}:{problem.position.line}:{problem.position.column}"


def _excerpt(line: str, position: Position) -> Text:
    line = safe(line)
    start = max(0, position.column - 1 - LINE_CELLS_MAX // 2) if cell_len(line) > LINE_CELLS_MAX else 0
    before, shown = line[start : position.column - 1], line[start : start + LINE_CELLS_MAX]
    lead, tail = "…" if start else "", "…" if start + LINE_CELLS_MAX < len(line) else ""
    margin = f"{position.line:>5} │ "
    mark = " " * (len(margin) - 2) + "│ " + " " * cell_len(lead + before) + "^"
    return Text("\n").append(margin, "dim").append(lead + shown + tail).append(f"\n{mark}", "red")


def safe(text: str) -> str:
    """Return the text without what would steer the reader's terminal: sources and data may hold escape codes."""
    text = text.replace("\t", " ")
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


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
    """Return a time as the clock on the reader's wall shows it."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}" if at is not None else ""


def length(span: timedelta) -> str:
    """Return a length of time, roughly."""
    seconds = int(span.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def one_line(text: str | None, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return the first line of a longer text."""
    first, _, more = (text or "").strip().partition("\n")
    return f"{first[:characters_max]}…" if more or len(first) > characters_max else first


class Bar:
    """Grows as more work is found."""

    def __init__(self, what: str, *, shown: bool) -> None:
        # Imported here: few commands show a bar, and the import takes 20 ms.
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        out = console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            console=out,
            transient=True,
            disable=not (shown and out.is_terminal),
        )
        self._task = self._progress.add_task(what, total=0)
        self._total = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def expect(self, more: int) -> None:
        self._total += more
        self._progress.update(self._task, total=self._total)

    def advance(self, by: int = 1) -> None:
        self._progress.advance(self._task, by)
