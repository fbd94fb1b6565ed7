"""The syntax of verbs such as `(document.solicit :doc-type passport)`: tree, parser, canonical text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from assent.language.parse import SyntaxRefused, constant_literal, number_literal, span_of, text_literal
from assent.language.render import render_value
from assent.language.syntax import (
    CANONICAL_GROWTH_MAX,
    Literal,
    LiteralValue,
    Located,
    TextSpan,
    Variable,
    marked,
)
from assent.language.types import TypeKind
from assent.model.canonical import NotCanonical, require_canonical
from assent.model.problems import Problem

VERB_CHARACTERS_MAX: Final = 2000
VERB_DEPTH_LEVELS_MAX: Final = 10
VERB_ARGUMENTS_MAX: Final = 50

VERB_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*")
UUID_FORM: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_CONSTANTS: Final = frozenset({"true", "false", "null", "nil"})


@dataclass(frozen=True, slots=True)
class Items(Located):
    """`[passport proof_of_address]`"""

    items: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Argument(Located):
    """`:key value`; the span is the key's."""

    key: str
    value: "Value"


@dataclass(frozen=True, slots=True)
class Entries(Located):
    """`{:city "Bonn" :zip "53111"}`"""

    entries: tuple[Argument, ...]


Value = Literal | Variable | Items | Entries


@dataclass(frozen=True, slots=True)
class VerbCall(Located):
    """One verb with its arguments; the span is the name's."""

    name: str
    arguments: tuple[Argument, ...]
    text: str = field(compare=False)


def variables_of(call: VerbCall) -> tuple[Variable, ...]:
    return tuple(found for argument in call.arguments for found in _variables(argument.value))


def _variables(value: Value) -> Iterator[Variable]:
    match value:
        case Variable():
            yield value
        case Items(items=items):
            for item in items:
                yield from _variables(item)
        case Entries(entries=entries):
            for entry in entries:
                yield from _variables(entry.value)
        case _:
            pass


def depth_of_value(value: Value) -> int:
    match value:
        case Items(items=items):
            return 1 + max(map(depth_of_value, items), default=0)
        case Entries(entries=entries):
            return 1 + max((depth_of_value(entry.value) for entry in entries), default=0)
        case _:
            return 1


def render_verb(call: VerbCall) -> str:
    """Return the canonical text: arguments in their order, text bare where it can be."""
    return f"({' '.join([call.name, *map(_argument, call.arguments)])})"


def _argument(argument: Argument) -> str:
    return f":{argument.key} {_rendered(argument.value)}"


def _rendered(value: Value) -> str:
    match value:
        case Variable(path=path):
            return f"${'.'.join(path)}"
        case Items(items=items):
            return f"[{' '.join(map(_rendered, items))}]"
        case Entries(entries=entries):
            return f"{{{' '.join(map(_argument, entries))}}}"
        case Literal(value=literal):
            return _literal(literal)


def _literal(value: LiteralValue) -> str:
    return value if isinstance(value, str) and _is_bare(value) else render_value(value)


def _is_bare(text: str) -> bool:
    lower = text.lower()
    if UUID_FORM.fullmatch(lower):
        # Bare ids are read in lower case; quotes keep any other as it is.
        return text == lower
    return _SYMBOL.fullmatch(text) is not None and text not in _CONSTANTS


SYNTAX: Final = "VERB_SYNTAX"


def parse_verb(text: str, *, canonical: bool = False) -> tuple[VerbCall | None, list[Problem]]:
    """Return the verb call in `text`, or what keeps it from being one; `canonical` as for expressions."""
    problem = _refuse_unread(text, VERB_CHARACTERS_MAX * (CANONICAL_GROWTH_MAX if canonical else 1))
    if problem is not None:
        return None, [problem]
    try:
        name, arguments = cast("tuple[Token, tuple[Argument, ...]]", _parser().parse(text))
    except UnexpectedInput as error:
        return None, [_complaint(text, error)]
    except SyntaxRefused as refused:
        return None, [refused.problem(text)]
    return VerbCall(str(name), arguments, text, span=span_of(name)), []


def _refuse_unread(text: str, characters_max: int) -> Problem | None:
    if len(text) > characters_max:
        message = f"a verb has at most {characters_max} characters, this one has {len(text)}"
        return Problem("VERB_TOO_LONG", message)
    try:
        require_canonical(text)
    except NotCanonical as error:
        return Problem(error.code, str(error))
    return None


@cache
def _parser() -> Lark:
    return Lark.open("verb.lark", rel_to=__file__, parser="lalr", lexer="basic", transformer=_Builder())


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    def start(self, opening: Token, name: Token, *rest: Any) -> tuple[Token, tuple[Argument, ...]]:
        if not VERB_NAME.fullmatch(name):
            hint = "a verb is named domain.verb in lower case, such as document.solicit"
            raise SyntaxRefused("BAD_NAME", f"`{name}` is not the name of a verb", span_of(name), hint)
        return name, _distinct(rest[:-1])

    def argument(self, key: Token, value: Value) -> Argument:
        return Argument(str(key[1:]), value, span=span_of(key))

    def listed(self, opening: Token, *rest: Any) -> Value:
        return _within_depth(Items(rest[:-1], span=span_of(opening).to(span_of(rest[-1]))))

    def mapped(self, opening: Token, *rest: Any) -> Value:
        return _within_depth(Entries(_distinct(rest[:-1]), span=span_of(opening).to(span_of(rest[-1]))))

    def text(self, token: Token) -> Value:
        return text_literal(token)

    def number(self, token: Token) -> Value:
        return number_literal(token)

    def constant(self, token: Token) -> Value:
        return constant_literal(token)

    def uuid(self, token: Token) -> Value:
        return Literal(TypeKind.TEXT, str(token).lower(), span=span_of(token))

    def symbol(self, token: Token) -> Value:
        return Literal(TypeKind.TEXT, str(token), span=span_of(token))

    def variable(self, token: Token) -> Value:
        return Variable(tuple(token[1:].split(".")), span=span_of(token))


def _distinct(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    seen: set[str] = set()
    for argument in arguments:
        if argument.key in seen:
            raise SyntaxRefused("DUPLICATE", f"`:{argument.key}` is given twice", argument.span)
        seen.add(argument.key)
    if len(arguments) > VERB_ARGUMENTS_MAX:
        message = f"expected at most {VERB_ARGUMENTS_MAX} arguments, found {len(arguments)}"
        raise SyntaxRefused("VERB_TOO_LONG", message, arguments[-1].span)
    return arguments


def _within_depth(value: Value) -> Value:
    if depth_of_value(value) > VERB_DEPTH_LEVELS_MAX:
        message = f"values are nested at most {VERB_DEPTH_LEVELS_MAX} levels deep"
        raise SyntaxRefused("VERB_TOO_DEEP", message, value.span)
    return value


def _complaint(text: str, error: UnexpectedInput) -> Problem:
    if isinstance(error, UnexpectedToken):
        wanted = _expectation(error.accepts)
        if error.token.type == "$END":
            end = len(text.rstrip())
            return marked(SYNTAX, f"{wanted}, but the text ends", text, TextSpan(end, end))
        return marked(SYNTAX, f"{wanted}, found `{error.token}`", text, span_of(error.token))
    offset = error.pos_in_stream or 0 if isinstance(error, UnexpectedCharacters) else 0
    span = TextSpan(offset, offset + 1)
    if text[offset : offset + 1] in ("'", '"'):
        return marked(SYNTAX, f"the text that begins with {text[offset]} is not closed", text, span)
    hint = "write (domain.verb :key value); text with other characters in quotes"
    return marked(SYNTAX, f"{text[offset : offset + 1]!r} means nothing in a verb", text, span, hint)


def _expectation(wanted: set[str]) -> str:
    if "TEXT" in wanted:
        return "expected a value"
    if "KEY" in wanted:
        return "expected a :key or the closing bracket"
    if "OPEN" in wanted:
        return "expected a verb in parentheses"
    if "SYMBOL" in wanted:
        return "expected the name of a verb"
    return "expected the end"
