"""The meaning of expressions, written down as plainly as possible, for the closures to be compared with.

It shares nothing with `assent.language` but the syntax tree: numbers are fractions, and every rule about
missing and unlike values is spelled out at the operator that it belongs to.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

from assent.language.syntax import (
    And,
    Arithmetic,
    Compare,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Negative,
    Node,
    Not,
    Or,
    Variable,
)

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


LENGTH = re.compile(r"-?[0-9]{1,12}([smhd]|\.[0-9]{1,6}s)")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
CHARACTERS_MAX = 100_000


def evaluate(node: Node, variables: Mapping[str, Any], declared: Mapping[str, str]) -> Any:  # noqa: PLR0911, PLR0912
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
            if operator.value == "matches":
                return matches(a, right)
            return compare(operator.value, a, b)
        case Arithmetic(operator=operator, left=left, right=right):
            a, b = (evaluate(side, variables, declared) for side in (left, right))
            return arithmetic(operator.value, a, b)
        case Negative(operand=operand):
            quantity = quantity_of(evaluate(operand, variables, declared))
            return negative(quantity)
        case FunctionCall(function="if", arguments=(condition, value, other)):
            chosen = value if evaluate(condition, variables, declared) is True else other
            return evaluate(chosen, variables, declared)
        case FunctionCall(function=function, arguments=(source, *body)) if function in OF_LISTS:
            items = evaluate(source, variables, declared)
            items = [] if items is None else items
            if not isinstance(items, list):
                return False if function in ("any", "all", "none") else None
            if function == "count" and not body:
                return len(items)
            inner = {name: kind for name, kind in declared.items() if not name.startswith("item")}
            results = [
                evaluate(body[0], {**variables, "item": item}, inner) if body else item for item in items
            ]
            return OF_LISTS[function](results)
        case FunctionCall(function=function, arguments=arguments):
            return OF_VALUES[function](*(evaluate(part, variables, declared) for part in arguments))


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
    if isinstance(a, timedelta) or isinstance(b, timedelta):
        x, y = quantity_of(a), quantity_of(b)
        return (x, y) if isinstance(x, timedelta) and isinstance(y, timedelta) else None
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


def matches(text: Any, pattern: Node) -> bool:
    """Whether all of the text fits; what is no pattern in quotes fits nothing."""
    if not isinstance(text, str) or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return False
    try:
        return re.fullmatch(pattern.value, text) is not None
    except re.error:
        return False


def quantity_of(value: Any) -> Any:
    """A number as a fraction, a time, a length of time, or None."""
    if isinstance(value, str):
        if LENGTH.fullmatch(value):
            return timedelta(microseconds=int(Fraction(value[:-1]) * SECONDS[value[-1]] * 1_000_000))
        if (number := number_of(value)) is None and (moment := moment_of(value)) is not None:
            return moment.date() if len(value) == 10 else moment
        return number
    if isinstance(value, datetime):
        return moment_of(value)
    return value if isinstance(value, date | timedelta) else number_of(value)


def number_form(number: Fraction) -> int | Decimal | None:
    if number.denominator == 1 and abs(number) < 2**53:
        return int(number)
    written = Context(prec=1000).divide(Decimal(number.numerator), Decimal(number.denominator))
    return written if len(f"{written:f}") <= 100 else None


def arithmetic(operator: str, left: Any, right: Any) -> Any:  # noqa: PLR0911
    a, b = quantity_of(left), quantity_of(right)
    kinds = "".join(
        "n" if isinstance(x, Fraction) else "l" if isinstance(x, timedelta) else "t" for x in (a, b)
    )
    if a is None or b is None:
        return None
    try:
        match operator, kinds:
            case "+" | "-" | "*", "nn":
                return number_form({"+": a + b, "-": a - b, "*": a * b}[operator])
            case "/", "nn" | "ll":
                return quotient(a, b)
            case "+" | "-", "ll":
                return a + b if operator == "+" else a - b
            case "+" | "-", "tl":
                return later(a, b if operator == "+" else -b)
            case "+", "lt":
                return later(b, a)
            case "-", "tt":
                return moment_of(a) - moment_of(b)  # type: ignore[operator]
            case "*", "ln" | "nl":
                length, factor = (a, b) if kinds == "ln" else (b, a)
                return timedelta(microseconds=round(Fraction(length // timedelta(microseconds=1)) * factor))
            case "/", "ln":
                written = quotient(Fraction(a // timedelta(microseconds=1)), b)
                return None if written is None else timedelta(microseconds=round(Fraction(written)))
    except OverflowError:
        return None
    return None


def quotient(a: Any, b: Any) -> int | Decimal | None:
    if not b:
        return None
    if isinstance(a, timedelta):
        a, b = (Fraction(length // timedelta(microseconds=1)) for length in (a, b))
    exact = a / b
    rounding = Context(prec=34, rounding=ROUND_HALF_EVEN)
    return number_form(Fraction(rounding.divide(Decimal(exact.numerator), Decimal(exact.denominator))))


def later(moment: date, length: timedelta) -> date:
    if type(moment) is date and not length.seconds and not length.microseconds:
        return moment + length
    found = moment_of(moment)
    assert found is not None
    return found + length


def negative(quantity: Any) -> Any:
    if isinstance(quantity, Fraction):
        return number_form(-quantity)
    return -quantity if isinstance(quantity, timedelta) else None


def total(values: list[Any]) -> Any:
    so_far: Any = None
    for value in values:
        if value is not None:
            quantity = quantity_of(value)
            if not isinstance(quantity, Fraction | timedelta):
                return None
            if so_far is None:
                so_far = number_form(quantity) if isinstance(quantity, Fraction) else quantity
            else:
                so_far = arithmetic("+", so_far, value)
            if so_far is None:
                return None
    return 0 if so_far is None else so_far


def extreme(operator: str, values: list[Any]) -> Any:
    best = None
    for value in (value for value in values if value is not None):
        if comparable(value, value if best is None else best) is None:
            return None
        if best is None or compare(operator, value, best):
            best = value
    return best


OF_LISTS: Mapping[str, Any] = {
    "any": lambda values: any(value is True for value in values),
    "all": lambda values: all(value is True for value in values),
    "none": lambda values: not any(value is True for value in values),
    "count": lambda values: len([value for value in values if value is True]),
    "sum": total,
    "min": lambda values: extreme("<", values),
    "max": lambda values: extreme(">", values),
    "map": list,
}


def rounded(value: Any, places: Any = 0) -> Any:
    number, count = quantity_of(value), quantity_of(places)
    if not isinstance(number, Fraction) or not isinstance(count, Fraction) or count.denominator != 1:
        return None
    if not 0 <= count <= 100:
        return None
    scaled = abs(number) * 10 ** int(count)
    whole = int(scaled + Fraction(1, 2))
    return number_form(Fraction(-whole if number < 0 else whole) / 10 ** int(count))


def magnitude(value: Any) -> Any:
    quantity = quantity_of(value)
    if isinstance(quantity, timedelta):
        return abs(quantity)
    return number_form(abs(quantity)) if isinstance(quantity, Fraction) else None


def substring(text: Any, start: Any, length: Any = CHARACTERS_MAX) -> Any:
    if not isinstance(text, str) or type(start) is not int or type(length) is not int:
        return None
    return None if start < 0 or length < 0 else text[start:][:length]


def written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, timedelta):
        seconds = Fraction(value // timedelta(microseconds=1), 1_000_000)
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
            if (seconds / size).denominator == 1:
                return f"{seconds / size}{unit}"
        return f"{Context(prec=50).divide(Decimal(seconds.numerator), Decimal(seconds.denominator)):f}s"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, date) else str(value)


def joined(items: Any, separator: Any = "") -> Any:
    items = [] if items is None else items
    if not isinstance(items, list) or not isinstance(separator, str):
        return None
    if any(isinstance(item, list | dict) for item in items):
        return None
    return separator.join(written(item) for item in items if item is not None)


def of_text(function: Any) -> Any:
    return lambda *texts: function(*texts) if all(isinstance(text, str) for text in texts) else None


OF_VALUES: Mapping[str, Any] = {
    "round": rounded,
    "abs": magnitude,
    "length": of_text(len),
    "lower": of_text(str.lower),
    "upper": of_text(str.upper),
    "trim": of_text(lambda text: text.strip(" \t\r\n")),
    "substring": substring,
    "replace": of_text(lambda text, part, other: text.replace(part, other) if part else None),
    "concat": lambda *values: (
        None if any(isinstance(value, list | dict) for value in values) else "".join(map(written, values))
    ),
    "join": joined,
}
