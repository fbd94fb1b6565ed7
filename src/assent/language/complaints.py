"""What is wrong with text that is no expression, in words that its author understands."""

import re
import unicodedata
from typing import Final

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from assent.language.marks import marked
from assent.language.syntax import TextSpan
from assent.model.problems import Problem

SYNTAX: Final = "EXPRESSION_SYNTAX"

_ARITHMETIC: Final = "expressions compare values and do not compute new ones"
_HINTS: Final = {
    "&": "write && or AND",
    "|": "write || or OR",
    "~": "there are no patterns; use startsWith, endsWith or contains",
    "$": "variables are written without $, as in entity.state",
    "{": "braces belong to templates; write the expression alone",
    ";": "an expression is a single condition",
    "?": "there is no ?: choice; use two edges with a condition each",
    **dict.fromkeys("+-*/%^", _ARITHMETIC),
    **dict.fromkeys("‘’“”«»`´", "quote text with plain ' or \""),
}
_WORD: Final = re.compile(r"[A-Za-z0-9_.]+")


class SyntaxRefused(Exception):
    """Text that fits the grammar but cannot be let in."""

    def __init__(self, code: str, message: str, span: TextSpan, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.span, self.hint = code, message, span, hint

    def problem(self, text: str) -> Problem:
        return marked(self.code, self.message, text, self.span, self.hint)


def complaint(text: str, error: UnexpectedInput) -> Problem:
    if isinstance(error, UnexpectedToken):
        return _unexpected_token(text, error)
    offset = error.pos_in_stream if isinstance(error, UnexpectedCharacters) else len(text)
    return _unexpected_character(text, offset or 0)


def _unexpected_character(text: str, offset: int) -> Problem:
    found = text[offset]
    span = TextSpan(offset, offset + 1)
    if found in "'\"":
        unclosed = TextSpan(offset, len(text))
        return marked(SYNTAX, f"the text that begins with {found} is not closed", text, unclosed)
    if found.isdecimal() and (word := _WORD.match(text, offset)):
        return marked(SYNTAX, f"`{word[0]}` is not a number", text, TextSpan(*word.span()))
    if found.isascii():
        message = f"{found!r} means nothing in an expression"
    else:
        name = unicodedata.name(found, "a character without a name")
        message = f"{found!r} ({name}) is not allowed outside quotes; names are plain ASCII"
    return marked(SYNTAX, message, text, span, _HINTS.get(found))


def _unexpected_token(text: str, error: UnexpectedToken) -> Problem:
    token, wanted = error.token, error.accepts
    if token.type == "$END":
        end = len(text.rstrip())
        return marked(SYNTAX, f"{_expectation(wanted)}, but the text ends", text, TextSpan(end, end))
    span = TextSpan(token.start_pos or 0, token.end_pos or len(text))
    hint = _HINTS.get(token[0])
    if token.type == "OPERATOR" and "_AND" in wanted:
        hint = "comparisons do not chain; join two of them with &&"
    return marked(SYNTAX, f"{_expectation(wanted)}, found `{token}`", text, span, hint)


def _expectation(wanted: set[str]) -> str:
    if "NAME" in wanted:
        return "expected a value"
    if "RPAR" in wanted:
        return "expected ) or an operator"
    if "CLOSE" in wanted:
        return "expected ]"
    if "OPERATOR" in wanted:
        return "expected an operator"
    return "expected && or || or the end"
