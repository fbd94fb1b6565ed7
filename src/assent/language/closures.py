"""An expression as closures: one small function for each node, built once, run many times.

The common shapes — a field against a number or a text, a field in a list — ask for the exact type first and
are done; everything else goes through `assent.language.values`. Nothing here raises, whatever variables hold, but
`ExpressionTooCostly`. Inside of a function of lists the variables are an `ItemScope`, which counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from assent.language.arithmetic import compute, negated
from assent.language.functions import FOLD, OF_NO_LIST, ItemScope
from assent.language.syntax import ArithmeticOperator
from assent.language.values import contains, looked_up, member

Variables = Mapping[str, Any]
Read = dict[str, Any]
"""The variables that a run has read so far, by name; every closure hands it on."""
Run = Callable[[Variables, Read], Any]
Test = Callable[[Any, Any], bool]

PLAIN: Final[frozenset[type]] = frozenset({int, str})
"""Types whose values Python compares among themselves as we do."""
PLAIN_TIMES: Final = PLAIN | {datetime}
"""The same where every time was read by `as_time`, which gives each its zone."""
_STACKS: Final = frozenset({list, tuple, set, frozenset})
_LISTS: Final = frozenset({list, tuple})


def constant(value: object) -> Run:
    def run(variables: Variables, read: Read) -> Any:
        return value

    return run


def path_reader(path: tuple[str, ...]) -> Run:
    root, *names = path

    def run(variables: Variables, read: Read) -> Any:
        value: Any = variables.get(root)
        for name in names:
            value = value.get(name) if type(value) is dict else looked_up(value, name)
        return value

    return run


def field_reader(root: str, name: str) -> Run:
    """`path_reader` for `entity.grand_total` and its like, which nearly all variables are."""

    def run(variables: Variables, read: Read) -> Any:
        owner = variables.get(root)
        return owner.get(name) if type(owner) is dict else looked_up(owner, name)

    return run


def recorded_field_reader(root: str, name: str) -> Run:
    full_name = f"{root}.{name}"

    def run(variables: Variables, read: Read) -> Any:
        owner = variables.get(root)
        value = read[full_name] = owner.get(name) if type(owner) is dict else looked_up(owner, name)
        return value

    return run


def recorded(inner: Run, name: str) -> Run:
    def run(variables: Variables, read: Read) -> Any:
        value = read[name] = inner(variables, read)
        return value

    return run


def recorded_of_items(inner: Run, name: str) -> Run:
    """Record the value of each item in one list."""

    def run(variables: Variables, read: Read) -> Any:
        value = inner(variables, read)
        read.setdefault(name, []).append(value)
        return value

    return run


def recorded_unless_list(inner: Run, name: str) -> Run:
    """Record what a function of lists cannot go through; of a list, what is read of its items is recorded."""

    def run(variables: Variables, read: Read) -> Any:
        value = inner(variables, read)
        if type(value) not in _LISTS:
            read[name] = value
        return value

    return run


def counted(inner: Run) -> Run:
    """Count what is read from outside of a list once more for each of its items."""

    def run(variables: Variables, read: Read) -> Any:
        value = inner(variables, read)
        cast("ItemScope", variables).steps.take_value(value)
        return value

    return run


def index(target: Run, key: Run) -> Run:
    def run(variables: Variables, read: Read) -> Any:
        return looked_up(target(variables, read), key(variables, read))

    return run


def converted(inner: Run, convert: Callable[[Any], Any]) -> Run:
    """Return what reads a value, or every item of a list, as the decimal or the time that it was declared to be."""

    def run(variables: Variables, read: Read) -> Any:
        value = inner(variables, read)
        return [convert(item) for item in value] if type(value) in _STACKS else convert(value)

    return run


def listed(items: Sequence[Run]) -> Run:
    def run(variables: Variables, read: Read) -> Any:
        return [item(variables, read) for item in items]

    return run


def negation(operand: Run) -> Run:
    def run(variables: Variables, read: Read) -> bool:
        return operand(variables, read) is not True

    return run


def conjunction(parts: Sequence[Run]) -> Run:
    def run(variables: Variables, read: Read) -> bool:
        for part in parts:  # noqa: SIM110 - all() over a generator takes 160 ns longer
            if part(variables, read) is not True:
                return False
        return True

    return run


def disjunction(parts: Sequence[Run]) -> Run:
    def run(variables: Variables, read: Read) -> bool:
        for part in parts:  # noqa: SIM110 - as above, with any()
            if part(variables, read) is True:
                return True
        return False

    return run


def against_constant(left: Run, fixed: object, tests: tuple[Test, Test]) -> Run:
    """Return a comparison with a plain value that never changes."""
    plain_test, any_test = tests
    fixed_type = type(fixed)

    def run(variables: Variables, read: Read) -> bool:
        value = left(variables, read)
        return plain_test(value, fixed) if type(value) is fixed_type else any_test(value, fixed)

    return run


def identity(left: Run, fixed: bool | None, *, wanted: bool) -> Run:
    """Return a comparison with true, false or null, each of which equals only itself."""

    def run(variables: Variables, read: Read) -> bool:
        return (left(variables, read) is fixed) is wanted

    return run


def comparison(left: Run, right: Run, tests: tuple[Test, Test], plain: frozenset[type] = PLAIN) -> Run:
    plain_test, any_test = tests

    def run(variables: Variables, read: Read) -> bool:
        a, b = left(variables, read), right(variables, read)
        return plain_test(a, b) if type(a) is type(b) and type(a) in plain else any_test(a, b)

    return run


def among_texts(needle: Run, texts: frozenset[str]) -> Run:
    """Membership in a list of texts that never changes."""

    def run(variables: Variables, read: Read) -> bool:
        value = needle(variables, read)
        return value in texts if type(value) is str else member(value, texts)

    return run


def membership(needle: Run, stack: Run) -> Run:
    def run(variables: Variables, read: Read) -> bool:
        value, held = needle(variables, read), stack(variables, read)
        # Python finds text in a list many times faster than we could; what it misses may still be alike.
        if type(value) is str and type(held) in _STACKS and value in held:
            return True
        return member(value, held)

    return run


def containment(stack: Run, needle: Run) -> Run:
    def run(variables: Variables, read: Read) -> bool:
        held, value = stack(variables, read), needle(variables, read)
        if type(value) is str and (type(held) is str or type(held) in _STACKS) and value in held:
            return True
        return contains(held, value)

    return run


def tested(test: Test, left: Run, right: Run) -> Run:
    def run(variables: Variables, read: Read) -> bool:
        return test(left(variables, read), right(variables, read))

    return run


def matched(text: Run, matches: Callable[[str], bool]) -> Run:
    def run(variables: Variables, read: Read) -> bool:
        value = text(variables, read)
        return isinstance(value, str) and matches(value)

    return run


def computed(operator: ArithmeticOperator, left: Run, right: Run) -> Run:
    def run(variables: Variables, read: Read) -> Any:
        return compute(operator, left(variables, read), right(variables, read))

    return run


def negative(operand: Run) -> Run:
    def run(variables: Variables, read: Read) -> Any:
        return negated(operand(variables, read))

    return run


def applied(function: Callable[..., Any], arguments: Sequence[Run]) -> Run:
    def run(variables: Variables, read: Read) -> Any:
        return function(*[argument(variables, read) for argument in arguments])

    return run


def choice(condition: Run, value: Run, other: Run) -> Run:
    """Only the value that is chosen is evaluated."""

    def run(variables: Variables, read: Read) -> Any:
        return (value if condition(variables, read) is True else other)(variables, read)

    return run


def length_of_list(source: Run) -> Run:
    def run(variables: Variables, read: Read) -> int | None:
        items = source(variables, read)
        if items is None:
            return 0
        return len(items) if type(items) in _LISTS else None

    return run


def over_items(function: str, source: Run, body: Run) -> Run:
    """Return what a function of lists makes of the value of `body` for each item."""
    fold, of_no_list, keeps_values = FOLD[function], OF_NO_LIST[function], function == "map"

    def run(variables: Variables, read: Read) -> Any:
        items = source(variables, read)
        if items is None:
            items = ()
        elif type(items) not in _LISTS:
            return of_no_list
        scope = ItemScope(variables)

        def values() -> Iterator[Any]:
            for scope.item in items:
                scope.steps.take()
                value = body(scope, read)
                if keeps_values:
                    scope.steps.take_value(value)
                yield value

        return fold(values())

    return run
