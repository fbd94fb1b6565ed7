"""Where in a text a problem is: positions, marked excerpts, and texts inside other texts."""

from dataclasses import replace
from typing import Final

from assent.language.syntax import TextSpan
from assent.model.problems import Position, Problem

_CONTEXT_CHARACTERS: Final = 40


def position_at(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - before.rfind("\n"))


def marked(code: str, message: str, text: str, span: TextSpan, hint: str | None = None) -> Problem:
    """A problem whose message shows the part of `text` that it is about."""
    shown = f"{message}, here: {_excerpt(text, span)}"
    return Problem(code, shown, hint=hint, position=position_at(text, span.start))


def _excerpt(text: str, span: TextSpan) -> str:
    before, culprit, after = text[: span.start], text[span.start : span.end], text[span.end :]
    if len(before) > _CONTEXT_CHARACTERS:
        before = f"…{before[-_CONTEXT_CHARACTERS:]}"
    if len(after) > _CONTEXT_CHARACTERS:
        after = f"{after[:_CONTEXT_CHARACTERS]}…"
    if len(culprit) > _CONTEXT_CHARACTERS:
        culprit = f"{culprit[:_CONTEXT_CHARACTERS]}…"
    return " ".join(f"`{before}»{culprit}«{after}`".split())


def moved(problem: Problem, origin: Position) -> Problem:
    """A problem of a text that begins at `origin` of a larger text, as a problem of the larger one."""
    at = problem.position or Position(1, 1)
    column = at.column + (origin.column - 1 if at.line == 1 else 0)
    return replace(problem, position=Position(at.line + origin.line - 1, column))
