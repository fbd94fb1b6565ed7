"""Named statements, kept in `.sql` files beside their noun; Python never builds SQL from strings.

    -- name: claim_events_if_pending
    -- Takes the oldest pending events for one worker and skips those that another holds.
    update …

Statements are sent with their name in a comment, so that logs and pg_stat_activity say which one it was.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

_NAME: Final = re.compile(r"^-- name:(.*)$", re.MULTILINE)
_SNAKE_CASE: Final = re.compile(r"[a-z][a-z0-9_]*")


class BadQueries(Exception):
    """A `.sql` file that is not as it must be; the message names every place."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement."""

    name: str
    purpose: str
    """The comment below the name: what the statement does."""
    sql: str
    source: str
    """The file that holds it, as package and name."""


class Queries:
    """The statements of one file, each an attribute; an unknown name fails where it is first written."""

    def __init__(self, statements: Mapping[str, Statement], source: str) -> None:
        self._statements = statements
        self._source = source

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._statements:
            near = get_close_matches(name, self._statements, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"{self._source} has no statement named {name!r}{hint}")
        return self._statements[name].sql

    def __iter__(self) -> Iterator[Statement]:
        return iter(self._statements.values())


@cache
def load_queries(package: str, filename: str) -> Queries:
    """Return the statements of one file of a package, such as `load_queries("assent.kernel", "kernel.sql")`."""
    source = f"{package}/{filename}"
    text = files(package).joinpath(filename).read_text(encoding="utf-8")
    return Queries({statement.name: statement for statement in parse_statements(text, source)}, source)


def all_statements(package: str = "assent") -> list[Statement]:
    """Return every statement of every `.sql` file in the package, without the schema and its migrations."""
    return [
        statement
        for source, file in _sql_files(files(package), package)
        for statement in parse_statements(file.read_text(encoding="utf-8"), source)
    ]


def _sql_files(folder: Traversable, source: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name not in ("schema", "migrations"):
            yield from _sql_files(entry, f"{source}.{entry.name}")
        elif entry.name.endswith(".sql"):
            yield f"{source}/{entry.name}", entry


def parse_statements(text: str, source: str) -> list[Statement]:
    """Return the statements in a file's text; `BadQueries` lists everything that is wrong with it."""
    marks = list(_NAME.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    statements = [
        _statement(mark[1].strip(), text[mark.end() : end], source)
        for mark, end in zip(marks, ends, strict=True)
    ]
    head = text[: marks[0].start()] if marks else text
    if complaints := [*_complaints_about_head(head), *_complaints(statements)]:
        raise BadQueries("\n".join(f"{source}: {complaint}" for complaint in complaints))
    return statements


def _statement(name: str, body: str, source: str) -> Statement:
    lines = body.strip().splitlines()
    count = next((index for index, line in enumerate(lines) if not line.startswith("--")), len(lines))
    purpose = " ".join(line.removeprefix("--").strip() for line in lines[:count])
    sql = "\n".join(lines[count:]).strip().removesuffix(";").rstrip()
    return Statement(name, purpose, f"/* {name} */ {sql}" if sql else "", source)


def _complaints_about_head(head: str) -> Iterator[str]:
    stray = [line for line in head.splitlines() if line.strip() and not line.startswith("--")]
    if stray:
        yield f"expected `-- name: …` before the first statement, found {stray[0]!r}"


def _complaints(statements: list[Statement]) -> Iterator[str]:
    seen: set[str] = set()
    for statement in statements:
        if not _SNAKE_CASE.fullmatch(statement.name):
            yield f"expected a name such as claim_events_if_pending, found {statement.name!r}"
        if statement.name in seen:
            yield f"{statement.name} is named twice; give one of them another name"
        if not statement.purpose:
            yield f"{statement.name} has no comment below its name; say in a line what it does"
        if not statement.sql:
            yield f"{statement.name} has no SQL"
        seen.add(statement.name)
