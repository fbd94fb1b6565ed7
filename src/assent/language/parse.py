"""From text to syntax tree. Bad text gives a problem with its column, never an exception.

Length is looked at before anything else, and trees are built from the leaves up without recursion, so that
hostile text costs next to nothing.
"""

from collections.abc import Iterator
from functools import cache
from typing import cast

from lark import Lark
from lark.exceptions import UnexpectedInput

from assent.language.build import Builder
from assent.language.complaints import SyntaxRefused, complaint
from assent.language.syntax import (
    CANONICAL_GROWTH_MAX,
    EXPRESSION_CHARACTERS_MAX,
    EXPRESSION_DEREFERENCES_MAX,
    Expression,
    Node,
    dereferences_of,
)
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.problems import Problem


def parse(text: str, *, canonical: bool = False) -> tuple[Expression | None, list[Problem]]:
    """The expression in `text`, or what keeps it from being one.

    `canonical` says that `render` wrote the text: its spaces and escapes do not count against the author.
    """
    problem = _refuse_unread(text, EXPRESSION_CHARACTERS_MAX * (CANONICAL_GROWTH_MAX if canonical else 1))
    if problem is not None:
        return None, [problem]
    try:
        root = cast("Node", _parser().parse(text))
    except UnexpectedInput as error:
        return None, [complaint(text, error)]
    except SyntaxRefused as refused:
        return None, [refused.problem(text)]
    problems = list(_too_many_dereferences(root))
    return (None if problems else Expression(root, text)), problems


def _refuse_unread(text: str, characters_max: int) -> Problem | None:
    if len(text) > characters_max:
        message = f"an expression has at most {characters_max} characters, this one has {len(text)}"
        return Problem("EXPRESSION_TOO_LONG", message, hint="split it over several edges or rules")
    if not text.strip():
        return Problem("EXPRESSION_EMPTY", "expected an expression, found nothing")
    try:
        require_canonical(text)
    except NotCanonical as error:
        return Problem(error.code, str(error))
    return None


def _too_many_dereferences(root: Node) -> Iterator[Problem]:
    count = dereferences_of(root)
    if count > EXPRESSION_DEREFERENCES_MAX:
        message = (
            f"an expression steps into values at most {EXPRESSION_DEREFERENCES_MAX} times, this one {count}"
        )
        hint = "each .name and each [key] counts; split the expression"
        yield Problem("EXPRESSION_TOO_MANY_DEREFERENCES", message, hint=hint)


@cache
def _parser() -> Lark:
    return Lark.open(
        "expression.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        transformer=Builder(),
        maybe_placeholders=False,
    )
