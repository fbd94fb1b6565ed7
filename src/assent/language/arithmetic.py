"""Arithmetic on numbers, times and durations. Nothing here raises: what has no result is missing, which is None.

Sums, differences and products are exact. A quotient has 34 significant digits. A number that would have more than
`DECIMAL_DIGITS_MAX` characters has no result. One value has one form: 2.50 is 2.5, and 2.0 is the integer 2.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, cast

from assent.language.syntax import ArithmeticOperator
from assent.language.values import as_decimal, as_duration, as_time, exact, is_number
from assent.model.canonical import INTEGER_MAX
from assent.model.values import DECIMAL_DIGITS_MAX

QUOTIENT_DIGITS: Final = 34

_EXACT: Final = Context(prec=3 * DECIMAL_DIGITS_MAX, rounding=ROUND_HALF_EVEN, traps=[])
_QUOTIENT: Final = Context(prec=QUOTIENT_DIGITS, rounding=ROUND_HALF_EVEN, traps=[])
_DAY: Final = timedelta(days=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_DATE_CHARACTERS: Final = 10

Operand = Decimal | date | timedelta
"""A `datetime` is a date too."""


def operand(value: object) -> Operand | None:
    """Return the number, time or duration that a value is or that its text says; None if it is none of them."""
    if isinstance(value, str):
        value = _read(value)
    if is_number(value):
        number = Decimal(exact(value)) if _is_short(value) else None
        return number if number is not None and normal(number) is not None else None
    if isinstance(value, datetime):
        return cast("datetime", as_time(value))
    return value if isinstance(value, date | timedelta) else None


def _is_short(value: Any) -> bool:
    # Compared as integers: the text of a large one takes long.
    return not isinstance(value, int) or abs(value) < 10**DECIMAL_DIGITS_MAX


def _read(text: str) -> object:
    found = as_decimal(text)
    if found is text:
        found = as_duration(text)
    if found is not text:
        return found
    moment = as_time(text)
    is_day = len(text) == _DATE_CHARACTERS and isinstance(moment, datetime)
    return moment.date() if is_day and isinstance(moment, datetime) else moment


def normal(number: Decimal) -> int | Decimal | None:
    """Return a number in the one form that it has; None if it is not finite or too long."""
    if not number.is_finite():
        return None
    exponent = number.as_tuple().exponent
    if number and not -DECIMAL_DIGITS_MAX * 3 <= int(exponent) <= DECIMAL_DIGITS_MAX:
        return None
    if number == (whole := number.to_integral_value(context=_EXACT)):
        if abs(whole) <= INTEGER_MAX:
            return int(whole)
        number = whole.quantize(Decimal(1), context=_EXACT)
    else:
        number = number.normalize(_EXACT)
    return number if len(f"{number:f}") <= DECIMAL_DIGITS_MAX else None


def compute(operator: ArithmeticOperator, left: object, right: object) -> Any:
    """Return the result of an operation, or None."""
    if type(left) is int and type(right) is int and operator in _ON_INTEGERS:
        found = _ON_INTEGERS[operator](left, right)
        if abs(found) <= INTEGER_MAX:
            return found
    a, b = operand(left), operand(right)
    if a is None or b is None:
        return None
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return _on_numbers(operator, a, b)
    try:
        return _on_times(operator, a, b)
    except OverflowError:
        return None


_ON_INTEGERS: Final[Mapping[ArithmeticOperator, Callable[[int, int], int]]] = {
    ArithmeticOperator.PLUS: int.__add__,
    ArithmeticOperator.MINUS: int.__sub__,
    ArithmeticOperator.TIMES: int.__mul__,
}


def _on_numbers(operator: ArithmeticOperator, left: Decimal, right: Decimal) -> int | Decimal | None:
    match operator:
        case ArithmeticOperator.PLUS:
            return normal(_EXACT.add(left, right))
        case ArithmeticOperator.MINUS:
            return normal(_EXACT.subtract(left, right))
        case ArithmeticOperator.TIMES:
            return normal(_EXACT.multiply(left, right))
        case ArithmeticOperator.DIVIDED:
            return normal(_QUOTIENT.divide(left, right)) if right else None


def _on_times(operator: ArithmeticOperator, left: Operand, right: Operand) -> Any:  # noqa: PLR0911 - a table
    match operator, left, right:
        case ArithmeticOperator.PLUS, timedelta(), timedelta():
            return left + right
        case ArithmeticOperator.MINUS, timedelta(), timedelta():
            return left - right
        case ArithmeticOperator.PLUS, date(), timedelta():
            return _shift(left, right)
        case ArithmeticOperator.PLUS, timedelta(), date():
            return _shift(right, left)
        case ArithmeticOperator.MINUS, date(), timedelta():
            return _shift(left, -right)
        case ArithmeticOperator.MINUS, date(), date():
            return cast("datetime", as_time(left)) - cast("datetime", as_time(right))
        case ArithmeticOperator.TIMES, timedelta(), Decimal():
            return _length(_EXACT.multiply(_microseconds(left), right))
        case ArithmeticOperator.TIMES, Decimal(), timedelta():
            return _length(_EXACT.multiply(_microseconds(right), left))
        case ArithmeticOperator.DIVIDED, timedelta(), Decimal() if right:
            return _length(_QUOTIENT.divide(_microseconds(left), right))
        case ArithmeticOperator.DIVIDED, timedelta(), timedelta() if right:
            return normal(_QUOTIENT.divide(_microseconds(left), _microseconds(right)))
    return None


def _shift(moment: date, length: timedelta) -> date:
    """Return a moment and a length of time; a day and whole days are a day again."""
    if isinstance(moment, datetime) or length % _DAY:
        return cast("datetime", as_time(moment)) + length
    return moment + length


def _microseconds(length: timedelta) -> Decimal:
    return Decimal(length // _MICROSECOND)


def _length(microseconds: Decimal) -> timedelta:
    """Return a length of so many microseconds; raise `OverflowError` if there is none."""
    if microseconds.adjusted() > len(str(timedelta.max // _MICROSECOND)):
        raise OverflowError
    return int(microseconds.to_integral_value(context=_EXACT)) * _MICROSECOND


def negated(value: object) -> Any:
    """`-value` of a number or a duration."""
    found = operand(value)
    if isinstance(found, Decimal):
        return normal(_EXACT.minus(found))
    return -found if isinstance(found, timedelta) and found != timedelta.min else None


def absolute(value: object) -> Any:
    found = operand(value)
    if isinstance(found, Decimal):
        return normal(abs(found))
    try:
        return abs(found) if isinstance(found, timedelta) else None
    except OverflowError:
        return None


def rounded(value: object, places: object = 0) -> Any:
    """Return a number rounded to so many decimal places, halves away from zero."""
    found = operand(value)
    count = operand(places)
    if not isinstance(found, Decimal) or not isinstance(count, Decimal) or count != int(count):
        return None
    if not 0 <= count <= DECIMAL_DIGITS_MAX:
        return None
    unit = Decimal(1).scaleb(-int(count))
    return normal(found.quantize(unit, rounding=ROUND_HALF_UP, context=_EXACT))


def total(values: Any) -> Any:
    """Return the sum of numbers, or of durations; missing values are left out, and the sum of nothing is 0."""
    so_far: Any = None
    for value in values:
        if value is None:
            continue
        if so_far is None:
            found = operand(value)
            so_far = normal(found) if isinstance(found, Decimal) else found
            if so_far is None or isinstance(so_far, date):
                return None
        elif (so_far := compute(ArithmeticOperator.PLUS, so_far, value)) is None or isinstance(so_far, date):
            return None
    return 0 if so_far is None else so_far


def why_missing(operator: ArithmeticOperator, left: object, right: object) -> str:
    """Return why an operation without a result has none, in words."""
    if left is None or right is None:
        return "a missing value cannot be computed with"
    if operator is ArithmeticOperator.DIVIDED and operand(right) in (0, timedelta()):
        return "nothing can be divided by zero"
    a, b = operand(left), operand(right)
    if a is None or b is None or _result_family(operator, a, b) is None:
        return f"these values have no `{operator}`"
    return "the result is out of range"


def _result_family(operator: ArithmeticOperator, left: Operand, right: Operand) -> object:
    """Something, if the operation exists for operands of these types."""
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return True
    samples: dict[type, Operand] = {
        Decimal: Decimal(1),
        timedelta: timedelta(1),
        date: date(2000, 1, 1),
        datetime: datetime(2000, 1, 1),  # noqa: DTZ001 - only its type is asked for
    }
    return _on_times(operator, samples[type(left)], samples[type(right)])
