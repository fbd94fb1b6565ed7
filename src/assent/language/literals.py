"""Literals as both grammars spell them: quoted text with escapes, and numbers that are never rounded."""

import re
from decimal import Decimal
from typing import Final

from lark import Token

from assent.language.complaints import Refused
from assent.language.syntax import Literal, Span
from assent.language.types import Kind
from assent.model.canonical import INTEGER_MAX

_CONSTANTS: Final = {"true": True, "false": False, "null": None, "nil": None}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"', "\\": "\\"}


def span_of(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))


def number_literal(token: Token) -> Literal:
    value = exact_number(str(token))
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise Refused("NUMBER_NOT_KEPT", "integers end at ±2^53-1", span_of(token))
    return Literal(Kind.INTEGER if isinstance(value, int) else Kind.DECIMAL, value, span=span_of(token))


def text_literal(token: Token) -> Literal:
    return Literal(Kind.TEXT, _unescaped(token), span=span_of(token))


def constant_literal(token: Token) -> Literal:
    value = _CONSTANTS[str(token)]
    return Literal(Kind.NULL if value is None else Kind.BOOLEAN, value, span=span_of(token))


def exact_number(text: str) -> int | Decimal:
    """`1.50` is 1.5 and `2.0` is 2: one value for every spelling."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return Decimal(f"{whole}.{fraction}") if fraction else int(whole)


def _unescaped(token: Token) -> str:
    def replacement(found: re.Match[str]) -> str:
        code, start = found[1], span_of(token).start + 1 + found.start()
        if len(code) > 1:
            return _character(int(code[1:], 16), Span(start, start + 6))
        if code not in _ESCAPED:
            span = Span(start, start + 2)
            raise Refused("BAD_ESCAPE", f"`\\{code}` is not an escape", span, "a backslash is written \\\\")
        return _ESCAPED[code]

    return _ESCAPE.sub(replacement, token[1:-1])


def _character(code: int, span: Span) -> str:
    if code == 0 or 0xD800 <= code <= 0xDFFF:
        raise Refused("TEXT_NOT_KEPT", "this is not a character that text can hold", span)
    return chr(code)
