"""From text to syntax tree. Bad text gives a problem with its column, never an exception.

Length is looked at before anything else, and trees are built from the leaves up without recursion, so that
hostile text costs next to nothing. Spellings end here: `=` and `==`, `context.x` and `workflow.x`, `a['b']` and
`a.b` are built alike. Complaints are in words that the author understands. Verbs share literals and complaints.
"""

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from assent.language.functions import ARITIES
from assent.language.syntax import (
    CANONICAL_GROWTH_MAX,
    EXPRESSION_CHARACTERS_MAX,
    EXPRESSION_DEPTH_LEVELS_MAX,
    EXPRESSION_DEREFERENCES_MAX,
    And,
    Arithmetic,
    ArithmeticOperator,
    Compare,
    Expression,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Negative,
    Node,
    Not,
    Operator,
    Or,
    TextSpan,
    Variable,
    depth_of,
    dereferences_of,
    marked,
)
from assent.language.types import TypeKind
from assent.language.values import is_number
from assent.model.canonical import INTEGER_MAX, NotCanonical, require_canonical
from assent.model.problems import Problem, did_you_mean

SYNTAX: Final = "EXPRESSION_SYNTAX"

_HINTS: Final = {
    "&": "write && or AND",
    "|": "write || or OR",
    "~": "a pattern is written text matches '[A-Z]+'",
    "$": "variables are written without $, as in entity.state",
    "{": "braces belong to templates; write the expression alone",
    ";": "an expression is a single condition",
    "?": "a choice is written if(condition, value, other)",
    **dict.fromkeys("%^", "there are + - * / and no other arithmetic"),
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
    elif token.type == "OPERATOR" and token[0].isalpha():
        hint = f"`{token}` stands between two values: text {token} 'part'"
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


ROOT_ALIASES: Final = {"context": "workflow"}
PATH_ALIASES: Final[dict[tuple[str, ...], tuple[str, ...]]] = {("actor", "user_id"): ("actor", "id")}

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

N = TypeVar("N", bound=Node)


class _Step(NamedTuple):
    """One `.name` or `[key]` of a path."""

    key: Node
    span: TextSpan


@v_args(inline=True)
class Builder(Transformer[Token, Node]):
    """One method for each alternative of the grammar; raises `SyntaxRefused` for what grows too deep."""

    def either(self, *parts: Node) -> Node:
        flat = (inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,)))
        return _within_depth(Or(tuple(flat), span=parts[0].span.to(parts[-1].span)))

    def both(self, *parts: Node) -> Node:
        flat = (inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
        return _within_depth(And(tuple(flat), span=parts[0].span.to(parts[-1].span)))

    def negated(self, sign: Token, operand: Node) -> Node:
        return _within_depth(Not(operand, span=span_of(sign).to(operand.span)))

    def compared(self, left: Node, sign: Token, right: Node) -> Node:
        operator = Operator("==" if sign == "=" else str(sign))
        return _within_depth(Compare(operator, left, right, span=left.span.to(right.span)))

    def computed(self, left: Node, sign: Token, right: Node) -> Node:
        operator = ArithmeticOperator(str(sign))
        return _within_depth(Arithmetic(operator, left, right, span=left.span.to(right.span)))

    def negative(self, sign: Token, operand: Node) -> Node:
        span = span_of(sign).to(operand.span)
        if (
            isinstance(operand, Literal)
            and isinstance(operand.value, int | Decimal)
            and is_number(operand.value)
        ):
            return Literal(operand.kind, -operand.value, span=span)
        return _within_depth(Negative(operand, span=span))

    def called(self, name: Token, *rest: Any) -> Node:
        arguments, closing = rest[:-1], cast("Token", rest[-1])
        span = span_of(name).to(span_of(closing))
        _require_function(str(name), len(arguments), span)
        return _within_depth(FunctionCall(str(name), arguments, span=span))

    def listed(self, opening: Token, *rest: Any) -> Node:
        items, closing = rest[:-1], cast("Token", rest[-1])
        return _within_depth(ListOf(items, span=span_of(opening).to(span_of(closing))))

    def path(self, name: Token, *steps: _Step) -> Node:
        found: Variable | Index = Variable((ROOT_ALIASES.get(str(name), str(name)),), span=span_of(name))
        for step in steps:
            found = _within_depth(_stepped(found, step))
        return found

    def member(self, name: Token) -> _Step:
        return _Step(Literal(TypeKind.TEXT, str(name[1:]), span=span_of(name)), span_of(name))

    def index(self, opening: Token, key: Node, closing: Token) -> _Step:
        return _Step(key, span_of(closing))

    def number(self, token: Token) -> Node:
        return number_literal(token)

    def text(self, token: Token) -> Node:
        return text_literal(token)

    def constant(self, token: Token) -> Node:
        return constant_literal(token)


def _require_function(name: str, count: int, span: TextSpan) -> None:
    """Raise `SyntaxRefused` if there is no such function or it takes another number of arguments."""
    arity = ARITIES.get(name)
    if arity is None:
        hint = did_you_mean(name, ARITIES) or f"functions: {', '.join(sorted(ARITIES))}"
        raise SyntaxRefused("UNKNOWN_FUNCTION", f"there is no function `{name}`", span, hint)
    if not arity.least <= count <= arity.most:
        message = f"expected {arity.usage}, found {count} argument{'' if count == 1 else 's'}"
        raise SyntaxRefused("WRONG_ARGUMENTS", message, span)


def is_name(value: object) -> bool:
    """Return whether a key can be written after a dot."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _stepped(target: Variable | Index, step: _Step) -> Variable | Index:
    """`target` and one more step; a step by a plain name lengthens the variable's path."""
    span, key = target.span.to(step.span), step.key
    if isinstance(target, Variable) and isinstance(key, Literal) and is_name(key.value):
        path = (*target.path, cast("str", key.value))
        return Variable(PATH_ALIASES.get(path, path), span=span)
    return Index(target, key, span=span)


def _within_depth(node: N) -> N:
    # Called for every node as it is made, so `depth_of` never goes deeper than one level past the limit.
    if depth_of(node) > EXPRESSION_DEPTH_LEVELS_MAX:
        message = f"an expression is nested at most {EXPRESSION_DEPTH_LEVELS_MAX} levels deep"
        is_sum = isinstance(node, Arithmetic)
        hint = "write a long sum as sum([a, b, c])" if is_sum else "split it over several edges or rules"
        raise SyntaxRefused("EXPRESSION_TOO_DEEP", message, node.span, hint)
    return node


def parse(text: str, *, canonical: bool = False) -> tuple[Expression | None, list[Problem]]:
    """Return the expression in `text`, or what keeps it from being one.

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
