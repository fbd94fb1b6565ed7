"""The meaning of expressions, written down as plainly as possible, for the closures to be compared with.

It shares nothing with `assent.language` but the syntax tree: numbers are fractions, and every rule about
missing and unlike values is spelled out at the operator that it belongs to.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

from assent.language.syntax import And, Compare, Index, ListOf, Literal, Node, Not, Or, Variable

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def evaluate(node: Node, variables: Mapping[str, Any], declared: Mapping[str, str]) -> Any:  # noqa: PLR0911
    """The value of `node`; `declared` names the variables that hold a `decimal` or a `time`."""
    match node:
        case Literal(value=value):
            return value
        case ListOf(items=items):
            return [evaluate(item, variables, declared) for item in items]
        case Variable(path=path):
            found: Any = variables
            for name in path:
                found = found.get(name) if isinstance(found, dict) else None
            return found
        case Index(target=target, key=key):
            return item_of(evaluate(target, variables, declared), evaluate(key, variables, declared))
        case Not(operand=operand):
            return evaluate(operand, variables, declared) is not True
        case And(parts=parts):
            return all(evaluate(part, variables, declared) is True for part in parts)
        case Or(parts=parts):
            return any(evaluate(part, variables, declared) is True for part in parts)
        case Compare(operator=operator, left=left, right=right):
            reading = declared_as(left, declared) or declared_as(right, declared)
            a, b = (read(evaluate(side, variables, declared), reading) for side in (left, right))
            return compare(operator.value, a, b)


def declared_as(node: Node, declared: Mapping[str, str]) -> str | None:
    return declared.get(".".join(node.path)) if isinstance(node, Variable) else None


def read(value: Any, reading: str | None) -> Any:
    if isinstance(value, list) and reading:
        return [read(item, reading) for item in value]
    if reading == "decimal" and (number := number_of(value)) is not None:
        return number
    if reading == "time" and (moment := moment_of(value)) is not None:
        return moment
    return value


def item_of(target: Any, key: Any) -> Any:
    if isinstance(key, bool):
        return None
    if isinstance(target, dict):
        return target.get(str(key)) if isinstance(key, int | str) else None
    if isinstance(target, list) and isinstance(key, int) and 0 <= key < len(target):
        return target[key]
    return None


def number_of(value: Any) -> Fraction | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return Fraction(value) if NUMBER.fullmatch(value) else None
    if isinstance(value, float):
        return Fraction(repr(value))
    return Fraction(value) if isinstance(value, int | Decimal | Fraction) else None


def moment_of(value: Any) -> datetime | None:
    if isinstance(value, str):
        if not DAY.match(value):
            return None
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime.combine(value, time(), UTC) if isinstance(value, date) else None


def comparable(a: Any, b: Any) -> tuple[Any, Any] | None:
    if isinstance(a, str) and isinstance(b, str):
        return a, b
    convert = moment_of if isinstance(a, date) or isinstance(b, date) else number_of
    x, y = convert(a), convert(b)
    return None if x is None or y is None else (x, y)


def equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(equal(a[key], b[key]) for key in a)
    both = comparable(a, b)
    return both is not None and both[0] == both[1]


def holds(stack: Any, needle: Any) -> bool:
    if isinstance(stack, dict):
        return isinstance(needle, int | str) and not isinstance(needle, bool) and str(needle) in stack
    return isinstance(stack, list) and needle is not None and any(equal(item, needle) for item in stack)


def compare(operator: str, a: Any, b: Any) -> bool:  # noqa: PLR0911
    texts = isinstance(a, str) and isinstance(b, str)
    match operator:
        case "==":
            return equal(a, b)
        case "!=":
            return not equal(a, b)
        case "in":
            return holds(b, a)
        case "contains":
            return (texts and b in a) or holds(a, b)
        case "startsWith":
            return texts and a.startswith(b)
        case "endsWith":
            return texts and a.endswith(b)
    both = comparable(a, b)
    if both is None:
        return False
    x, y = both
    return bool({">": x > y, ">=": x >= y, "<": x < y, "<=": x <= y}[operator])
