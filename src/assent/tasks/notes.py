"""What an attempt says while it runs: how far it is, and lines of its log. Kept in memory until the worker writes it.

A function says it at any rate, from any thread; the worker writes it for all its attempts in one statement, at most
once in an interval and with the end of each attempt, and only while it has the task.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from assent.jobs.job import JobKey
from assent.model.problems import clean_error_text
from assent.store.connection import put
from assent.store.database import Connection
from assent.store.queries import load_queries
from assent.store.rows import Row

_SQL: Final = load_queries("assent.tasks", "tasks.sql")

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error")

LINES_MAX: Final = 1_000
"""How many lines of one attempt are kept; the last of them says that there were more."""
LINE_CHARACTERS_MAX: Final = 2_000
MESSAGE_CHARACTERS_MAX: Final = 200
"""Of the text beside the progress."""


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far an attempt is."""

    fraction: float
    """From 0 to 1."""
    message: str
    attempt: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that an attempt wrote."""

    attempt: int
    position: int
    """From 1, in the attempt."""
    level: LogLevel
    message: str
    at: datetime


@dataclass
class Notes:
    """What one attempt has said."""

    key: JobKey
    _progress: TaskProgress | None = None
    _written: TaskProgress | None = None
    _lines: list[LogLine] = field(default_factory=list)
    _lines_written: int = 0

    def say(self, fraction: float, message: str, at: datetime) -> None:
        """Note how far the attempt is; raise `ValueError` for what is no part of a whole."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"Expected a progress from 0 to 1, found {fraction}.")
        said = clean_error_text(message, MESSAGE_CHARACTERS_MAX)
        self._progress = TaskProgress(float(fraction), said, self.key[2], at)

    def log(self, message: str, level: LogLevel, at: datetime) -> None:
        """Note a line; raise `ValueError` for a level that there is not."""
        if level not in LOG_LEVELS:
            raise ValueError(f"Expected one of {', '.join(LOG_LEVELS)}, found {level!r}.")
        position = len(self._lines) + 1
        if position > LINES_MAX:
            return
        if position == LINES_MAX:
            level, message = "warning", f"only the first {LINES_MAX - 1} lines of an attempt are kept"
        said = clean_error_text(message, LINE_CHARACTERS_MAX)
        self._lines.append(LogLine(self.key[2], position, level, said, at))

    @property
    def has_news(self) -> bool:
        """Whether something is not written yet."""
        return self._progress is not self._written or len(self._lines) > self._lines_written

    def news(self) -> "News":
        """Return what is not written yet."""
        progress = self._progress if self._progress is not self._written else None
        return News(self, progress, tuple(self._lines[self._lines_written :]))

    def wrote(self, news: "News") -> None:
        """Note that this is written; what came since is not."""
        self._written = news.progress or self._written
        self._lines_written = max([self._lines_written, *(line.position for line in news.lines)])


@dataclass(frozen=True, slots=True)
class News:
    """What is to be written of one attempt."""

    notes: Notes
    progress: TaskProgress | None
    lines: tuple[LogLine, ...]

    def row(self) -> dict[str, Any]:
        org_id, task_id, attempt = self.notes.key
        said = self.progress
        return {
            "org_id": org_id,
            "id": task_id,
            "attempt": attempt,
            "fraction": said.fraction if said else None,
            "message": said.message if said else None,
            "at": said.at if said else None,
            "lines": [
                {"position": line.position, "level": line.level, "message": line.message, "at": line.at}
                for line in self.lines
            ],
        }


def news_of(notes: Iterable[Notes]) -> list[News]:
    """Return what is not written yet of these attempts."""
    return [one.news() for one in notes if one.has_news]


async def write_news_if_claimed(connection: Connection, worker_id: UUID, news: Collection[News]) -> None:
    """Write what attempts have said, of those that this worker still has."""
    if news:
        await put(connection, _SQL.write_notes_if_claimed, [one.row() for one in news], worker_id)


async def list_log(
    connection: Connection, org_id: str, task_id: UUID, after: tuple[int, int], limit: int
) -> list[LogLine]:
    """Return the log of a task in order, from an attempt and a position on."""
    rows = await connection.fetch(_SQL.list_log_lines, org_id, task_id, *after, limit)
    return [LogLine(*row) for row in rows]


def progress_of(row: Row) -> TaskProgress | None:
    """Return how far a task is, from columns of `read_task`."""
    if row["progress_at"] is None:
        return None
    return TaskProgress(row["fraction"], row["message"], row["progress_attempt"], row["progress_at"])
