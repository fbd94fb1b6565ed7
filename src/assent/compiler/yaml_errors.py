"""What a YAML parser complains about, in our words and at the place that has to be repaired."""

from typing import Any, Final

import yaml

from assent.model.problems import Position, Problem

_OPENINGS: Final = frozenset("[{'\"")


def syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark, opened = error.problem_mark or error.context_mark, error.context_mark
    said = ", ".join(part for part in (error.problem, error.context) if part)
    if mark and opened and opened.line < mark.line and text[opened.index : opened.index + 1] in _OPENINGS:
        # The parser notices on a later line; what has to be repaired is where the text opened.
        message = f"this is not YAML: `{text[opened.index]}` is not closed, or not on this line"
        return Problem("YAML_SYNTAX", message, position=position_of(opened))
    is_tab = mark is not None and text[mark.index : mark.index + 1] == "\t"
    hint = "indent with spaces, not with tabs" if is_tab else _hint_for(said)
    position = position_of(mark) if mark else None
    return Problem("YAML_SYNTAX", f"this is not YAML: {said}", hint=hint, position=position)


def _hint_for(said: str) -> str | None:
    if "mapping values are not allowed" in said:
        return "quote a text that holds a colon and a space"
    if "cannot start any token" in said:
        return "quote a text that starts with a special character"
    return None


def position_of(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)
