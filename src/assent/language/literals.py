"""Literals as both grammars spell them: quoted text with escapes, and numbers that are never rounded."""

import re
from decimal import Decimal
from typing import Final

from lark import Token

from assent.language.complaints import SyntaxRefused
from assent.language.syntax import Literal, TextSpan
from assent.language.types import TypeKind
from assent.model.canonical import INTEGER_MAX

_CONSTANTS: Final = {"true": True, "false": False, "null": None, "nil": None}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"', "\\": "\\"}


def span_of(token: Token) -> TextSpan:
    start = token.start_pos or 0
    return TextSpan(start, start + len(token))


def number_literal(token: Token) -> Literal:
    value = exact_number(str(token))
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise SyntaxRefused("NUMBER_NOT_KEPT", "integers end at ±2^53-1", span_of(token))
    return Literal(
        TypeKind.INTEGER if isinstance(value, int) else TypeKind.DECIMAL, value, span=span_of(token)
    )


def text_literal(token: Token) -> Literal:
    return Literal(TypeKind.TEXT, _unescaped(token), span=span_of(token))


def constant_literal(token: Token) -> Literal:
    value = _CONSTANTS[str(token)]
    return Literal(TypeKind.NULL if value is None else TypeKind.BOOLEAN, value, span=span_of(token))


def exact_number(text: str) -> int | Decimal:
    """`1.50` is 1.5 and `2.0` is 2: one value for every spelling."""
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return Decimal(f"{whole}.{fraction}") if fraction else int(whole)


def _unescaped(token: Token) -> str:
    def replacement(found: re.Match[str]) -> str:
        code, start = found[1], span_of(token).start + 1 + found.start()
        if len(code) > 1:
            return _character(int(code[1:], 16), TextSpan(start, start + 6))
        if code not in _ESCAPED:
            span = TextSpan(start, start + 2)
            raise SyntaxRefused(
                "BAD_ESCAPE", f"`\\{code}` is not an escape", span, "a backslash is written \\\\"
            )
        return _ESCAPED[code]

    return _ESCAPE.sub(replacement, token[1:-1])


def _character(code: int, span: TextSpan) -> str:
    if code == 0 or 0xD800 <= code <= 0xDFFF:
        raise SyntaxRefused("TEXT_NOT_KEPT", "this is not a character that text can hold", span)
    return chr(code)
