"""Problems on a terminal: where, what, the line itself with a mark under the column, and what to do."""

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from assent.model.problems import TOO_MANY, Position, Problem

if TYPE_CHECKING:
    from assent.compiler.source import Source

PROBLEMS_SHOWN_MAX = 200
LINE_CELLS_MAX = 100
"""A longer line is cut around the column that is marked."""


def console(*, stderr: bool = False) -> Console:
    """A console that colours only terminals and never breaks lines."""
    return Console(stderr=stderr, soft_wrap=True, highlight=False, emoji=False, markup=False)


def print_json(value: object, *, stderr: bool = False) -> None:
    """One JSON document, on standard output unless it says why there is none."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain), err=stderr)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def print_problems(problems: Sequence[Problem], sources: "Sequence[Source]", *, stderr: bool = False) -> None:
    """The problems in reading order, each with its line; a screen is no place for thousands of them."""
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
    """One problem as text with style."""
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
    """The text without what would steer the reader's terminal: sources and data may hold escape codes."""
    text = text.replace("\t", " ")
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
