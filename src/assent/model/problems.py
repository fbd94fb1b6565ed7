"""What is wrong with something that a person or a program handed in.

A problem is a value: a stable code, where it is, what was expected, and what to do about it. Passes collect
problems; only the outermost door turns a list of them into an exception or an exit code. Hints name what was probably
meant. Texts of errors that events and jobs keep are cleaned here as well.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Final, Self

Path = tuple[str | int, ...]

PROBLEMS_MAX: Final = 100
"""Of one answer. A pass that has found so many stops; the last problem says how many there are."""
TOO_MANY: Final = "TOO_MANY_PROBLEMS"
"""Code of the problem that says how many there are, if not all of them are listed."""
TEXT_LENGTH_MAX: Final = 1_000
"""Of a message, a hint or a part of a path in an answer."""
HINTS_MAX: Final = 10
"""Of one answer: finding what may have been meant costs more than finding that something is wrong."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a source text; lines and columns count from one."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    code: str
    """Stable and upper-case, such as `UNKNOWN_FIELD`; programs match on it."""
    message: str
    """What was expected and what was found, in one sentence."""
    path: Path = ()
    """Keys and indexes from the root of the value to the culprit."""
    hint: str | None = None
    """What to do about it, where that is not obvious."""
    position: Position | None = None
    """Where it is in the source text, when there is one."""
    source: str | None = None
    """The name of that text, usually a file."""

    def under(self, *prefix: str | int) -> Self:
        """Return the same problem, seen from a value that holds the culprit under `prefix`."""
        return replace(self, path=(*prefix, *self.path))

    def at(self, position: Position | None, source: str | None = None) -> Self:
        return replace(self, position=position or self.position, source=source or self.source)

    @property
    def where(self) -> str:
        """The path as people write it: `lifecycle.transitions.submit.from[0]`."""
        return format_path(self.path)

    def __str__(self) -> str:
        place = ":".join(
            str(part)
            for part in (
                self.source,
                self.position and f"{self.position.line}:{self.position.column}",
                self.where,
            )
            if part
        )
        text = f"{self.code} {place}: {self.message}" if place else f"{self.code}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text

    def to_json(self) -> dict[str, object]:
        """Return the problem as programs read it; absent parts are left out."""
        found: dict[str, object] = {"code": self.code, "message": self.message, "path": list(self.path)}
        if self.hint:
            found["hint"] = self.hint
        if self.source:
            found["source"] = self.source
        if self.position:
            found |= {"line": self.position.line, "column": self.position.column}
        return found


def first_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Return the first `PROBLEMS_MAX` problems, the first `HINTS_MAX` of them with hints; cut and escape texts."""
    return [
        replace(
            problem,
            message=_clip_and_escape(problem.message),
            path=tuple(_clip_and_escape(part) if isinstance(part, str) else part for part in problem.path),
            hint=_clip_and_escape(problem.hint) if problem.hint and number < HINTS_MAX else None,
            source=_clip_and_escape(problem.source) if problem.source else None,
        )
        for number, problem in enumerate(problems[:PROBLEMS_MAX])
    ]


def _clip_and_escape(text: str) -> str:
    text = text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 1]}…"
    # Half of a surrogate pair cannot be sent, and names of the sender are shown as they came.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def format_path(path: Path) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class Invalid(Exception):
    """Raised at a door when input has problems; carries all of them, never only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


NAME_LENGTH_MAX: Final = 64
KNOWN_MAX: Final = 200


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most like this one, if one is."""
    if len(name) > NAME_LENGTH_MAX:
        return None
    near = get_close_matches(name, list(islice(known, KNOWN_MAX)), n=1)
    return near[0] if near else None


def did_you_mean(name: str, known: Collection[str]) -> str | None:
    """Return a hint that names the known name that is most like this one, if one is."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else None


ERROR_CHARACTERS_MAX: Final = 2_000


def clean_error_text(text: str, characters_max: int = ERROR_CHARACTERS_MAX) -> str:
    """Return a text that PostgreSQL can keep: no NUL, no half of a surrogate pair, and not too long."""
    return text.replace("\0", "\ufffd").encode("utf-8", errors="replace").decode()[:characters_max]


def error_text(error: BaseException) -> str:
    """Return the message of an error, cleaned; its type where it has none."""
    return clean_error_text(str(error) or type(error).__name__)


def typed_error_text(error: BaseException) -> str:
    """Return the type and the message of an error, cleaned."""
    return clean_error_text(f"{type(error).__name__}: {error}")
