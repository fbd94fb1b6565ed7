"""The syntax tree of verbs such as `(document.solicit :doc-type passport)`, and its canonical text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from assent.language.render import render_value
from assent.language.syntax import Literal, LiteralValue, Located, Variable

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
    """The canonical text: arguments in their order, text bare where it can be."""
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
