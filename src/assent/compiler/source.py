"""A YAML text as plain data, with the place of every part in the text.

Owns the reading of what authors write, friendly or hostile: any text or bytes gives a `Source`, never an
exception, in time and memory bounded by `SourceLimits`. It knows nothing of contracts or flows, and opens no file.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from assent.compiler.characters import bad_characters, name_characters
from assent.compiler.tree import SourceLimits, SourcePlace, YamlDocument, read_documents
from assent.model.canonical import JsonValue
from assent.model.problems import Path, Position, Problem

__all__ = ["Source", "SourceLimits", "SourcePlace", "located", "read_source", "read_sources"]

START: Final = Position(1, 1)
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
_ABOUT_THE_KEY: Final = frozenset({"UNKNOWN_KEY", "RESERVED_NAME", "UNKNOWN_SLOT"})


@dataclass(frozen=True, slots=True)
class Source:
    """One YAML document: its data, where each part of it stands, and what is wrong with its form."""

    name: str
    data: JsonValue = None
    problems: tuple[Problem, ...] = ()
    lines: tuple[str, ...] = field(default=(), repr=False)
    place: SourcePlace = field(default_factory=lambda: SourcePlace(START), repr=False)

    def position(self, path: Path) -> Position:
        """Return where `path` stands, or its nearest known ancestor: a scalar itself, all else by its key."""
        return self._place(path).shown_at

    def key_position(self, path: Path) -> Position:
        """Return where the key that ends `path` stands, or its nearest known ancestor."""
        place = self._place(path)
        return place.key or place.position

    def position_inside(self, path: Path, at: Position) -> Position:
        """Return where line and column `at` of the text at `path` stand; an expression's problems are found so."""
        text, place = self.value(path), self._place(path)
        wanted = text.split("\n")[at.line - 1 : at.line] if isinstance(text, str) else []
        for number in (place.position.line + at.line - 1, place.position.line + at.line):
            # Searched for, because quotes and block scalars put the text elsewhere than the scalar begins.
            first = place.position.column - 1 if number == place.position.line else 0
            start = self.line(number).find(wanted[0], first) if wanted and wanted[0] else -1
            if start >= 0:
                return Position(number, start + at.column)
        return place.shown_at

    def line(self, number: int) -> str:
        """Return the text of a line, counted from one; empty beyond the end."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def value(self, path: Path) -> JsonValue:
        """Return the data at `path`, None where there is none."""
        value = self.data
        for part in path:
            try:
                value = value[part]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def _place(self, path: Path) -> SourcePlace:
        place = self.place
        for part in path:
            if part not in place.parts:
                break
            place = place.parts[part]
        return place


def read_source(text: str | bytes, name: str, limits: SourceLimits | None = None) -> Source:
    """Return the one document in `text`; more than one is a problem, and the first is read."""
    sources = read_sources(text, name, limits)
    first = sources[0]
    if len(sources) == 1:
        return first
    problem = Problem(
        "SEVERAL_DOCUMENTS",
        f"one document was expected, {len(sources)} were found",
        position=sources[1].place.position,
        source=name,
        hint="keep each in a file of its own",
    )
    return replace(first, problems=(*first.problems, problem))


def read_sources(text: str | bytes, name: str, limits: SourceLimits | None = None) -> list[Source]:
    """Return every document in `text`, at least one; documents are separated by a line `---`."""
    limits = limits or SourceLimits()
    decoded, problem = _decode(text, limits)
    if problem is not None:
        return [Source(name, problems=(problem.at(problem.position or START, name),))]
    lines = tuple(_LINE_BREAK.split(decoded))
    refused = tuple(problem.at(None, name) for problem in bad_characters(lines))
    if refused:
        return [Source(name, problems=refused, lines=lines)]
    documents = read_documents(decoded, limits)
    return [_source(document, name, lines) for document in documents] or [_empty(name, lines)]


def located(problems: Iterable[Problem], source: Source) -> list[Problem]:
    """Return the problems with the place in `source` that their paths lead to."""
    return [_located(problem, source) for problem in problems]


def _located(problem: Problem, source: Source) -> Problem:
    if problem.source is not None:
        return problem
    at_key = problem.code in _ABOUT_THE_KEY
    culprit = problem.path[-1] if at_key and problem.path else source.value(problem.path)
    hint = problem.hint or (name_characters(culprit) if isinstance(culprit, str) else None)
    return replace(problem, hint=hint).at(_position_of_problem(problem, source, at_key), source.name)


def _position_of_problem(problem: Problem, source: Source, at_key: bool) -> Position:
    if problem.position is not None:
        return source.position_inside(problem.path, problem.position)
    return source.key_position(problem.path) if at_key else source.position(problem.path)


def _source(document: YamlDocument, name: str, lines: tuple[str, ...]) -> Source:
    problems = tuple(problem.at(None, name) for problem in document.problems)
    return Source(name, document.data, problems, lines, document.place)


def _empty(name: str, lines: tuple[str, ...]) -> Source:
    problem = Problem("EMPTY_SOURCE", "there is nothing here but white space and comments", source=name)
    return Source(name, problems=(problem.at(START),), lines=lines)


def _decode(text: str | bytes, limits: SourceLimits) -> tuple[str, Problem | None]:
    # Characters are at most bytes, so the length check also spares us encoding a huge text.
    too_large = Problem("TOO_LARGE", f"more than {limits.bytes_max:,} bytes; that is no workflow")
    if len(text) > limits.bytes_max:
        return "", too_large
    try:
        raw = text.encode() if isinstance(text, str) else text
        decoded = raw.decode()
    except UnicodeError as error:
        return "", Problem(
            "NOT_UTF8", "the text is not valid UTF-8", position=_position_of_error(error, text)
        )
    return decoded.removeprefix("\ufeff"), too_large if len(raw) > limits.bytes_max else None


def _position_of_error(error: UnicodeError, text: str | bytes) -> Position:
    start = error.start if isinstance(error, UnicodeEncodeError | UnicodeDecodeError) else 0
    before = text[:start] if isinstance(text, str) else text[:start].decode(errors="replace")
    lines = _LINE_BREAK.split(before)
    return Position(len(lines), len(lines[-1]) + 1)
