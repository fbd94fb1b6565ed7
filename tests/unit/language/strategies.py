"""Random syntax trees and random values for them."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from assent.language.json_form import literal_of
from assent.language.parse import is_name
from assent.language.syntax import (
    And,
    Arithmetic,
    ArithmeticOperator,
    Compare,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Negative,
    Node,
    Not,
    Operator,
    Or,
    Variable,
)

NAMES = ("a", "b", "rate", "due", "in", "tags")
ROOTS = ("entity", "org", "workflow")

texts = st.one_of(
    st.sampled_from(
        ["", "a", "ab", "5", "5.0", "05", "1.50", "2026-01-31", "2026-01-31T00:00:00Z", "x y", "'\"\\\n"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5),
)
integers = st.one_of(st.integers(-3, 10), st.sampled_from([2**53 - 1, 1 - 2**53]))
decimals = st.decimals(-10, 10, places=2).map(lambda number: number + 0)
scalars = st.one_of(st.none(), st.booleans(), integers, texts)

literals = st.one_of(scalars, decimals).map(literal_of)


def _index(pair: tuple[Variable | Index, Node]) -> Variable | Index:
    target, key = pair
    if isinstance(target, Variable) and isinstance(key, Literal) and is_name(key.value):
        return Variable((*target.path, str(key.value)))
    return Index(target, key)


variables = st.one_of(
    st.builds(
        lambda root, names: Variable((root, *names)),
        st.sampled_from(ROOTS),
        st.lists(st.sampled_from(NAMES), max_size=2),
    ),
    st.just(Variable(("now",))),
)
paths = st.one_of(variables, st.tuples(variables, st.one_of(literals, variables)).map(_index))


OPERATORS = [operator for operator in Operator if operator is not Operator.MATCHES]
PATTERNS = ("", "a*b?", "[0-9]+", "[0-9.]+", ".*", "(a|5)+", "x y", "(", "[^a]")
"""Python reads these as RE2 does."""


def _joined(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    flat = (inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    return kind(tuple(flat))


def _grown(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(nodes, min_size=2, max_size=3)
    return st.one_of(
        st.builds(Compare, st.sampled_from(OPERATORS), nodes, nodes),
        st.builds(Compare, st.sampled_from(OPERATORS), paths, literals),
        st.builds(Compare, st.just(Operator.MATCHES), nodes, st.sampled_from(PATTERNS).map(literal_of)),
        st.builds(Not, nodes),
        several.map(lambda parts: _joined(And, parts)),
        several.map(lambda parts: _joined(Or, parts)),
        st.lists(nodes, max_size=3).map(lambda items: ListOf(tuple(items))),
        st.builds(Arithmetic, st.sampled_from(ArithmeticOperator), nodes, nodes),
        nodes.map(_negative),
    )


def _negative(node: Node) -> Node:
    """The parser makes a literal of `-5`."""
    is_number = isinstance(node, Literal) and not isinstance(node.value, bool | str | None)
    return node if is_number else Negative(node)


plain_nodes: st.SearchStrategy[Node] = st.recursive(st.one_of(literals, paths), _grown, max_leaves=8)
"""Trees without functions."""

items = st.one_of(
    st.just(Variable(("item",))),
    st.sampled_from(NAMES).map(lambda name: Variable(("item", name))),
)
LIST_FUNCTIONS = ("any", "all", "none", "count", "sum", "min", "max", "map")
PLAIN_FUNCTIONS = (
    *(("round", 1), ("round", 2), ("abs", 1), ("length", 1), ("lower", 1), ("upper", 1), ("trim", 1)),
    *(("substring", 2), ("substring", 3), ("replace", 3), ("concat", 2), ("join", 1), ("join", 2)),
)


def _called(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    plain = [
        st.builds(FunctionCall, st.just(name), st.tuples(*[nodes] * count)) for name, count in PLAIN_FUNCTIONS
    ]
    lists = st.one_of(paths, nodes, st.lists(nodes, max_size=4).map(lambda parts: ListOf(tuple(parts))))
    return st.one_of(
        _grown(nodes),
        st.builds(FunctionCall, st.just("if"), st.tuples(nodes, nodes, nodes)),
        st.builds(FunctionCall, st.sampled_from(LIST_FUNCTIONS), st.tuples(lists, nodes)),
        st.builds(FunctionCall, st.sampled_from(LIST_FUNCTIONS[:-1]), st.tuples(lists)),
        *plain,
    )


nodes: st.SearchStrategy[Node] = st.recursive(st.one_of(literals, paths, items), _called, max_leaves=10)

times = st.datetimes(datetime(2026, 1, 30), datetime(2026, 2, 1), timezones=st.just(UTC))  # noqa: DTZ001
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        scalars, decimals, st.floats(-5, 5), times, times.map(datetime.date), times.map(datetime.isoformat)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*NAMES, "5"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _other_forms(value: Any) -> st.SearchStrategy[Any]:
    """Values that might be taken for `value`, or hold it."""
    forms = [value, [value], [None, value], {"a": value}, str(value), None]
    if isinstance(value, bool):
        forms += [int(value), str(value).lower()]
    elif isinstance(value, int | float | Decimal):
        forms += [Decimal(str(value)), float(value), f"{value}0", f"+{value}", bool(value)]
    elif isinstance(value, str):
        forms += [f"{value}0", f"0{value}", f"{value}.0"]
    elif isinstance(value, datetime):
        forms += [value.isoformat(), value.replace(tzinfo=None), value.date(), f"{value:%Y-%m-%d}"]
    return st.sampled_from(forms)


pairs: st.SearchStrategy[tuple[Any, Any]] = st.one_of(times, decimals, scalars, values).flatmap(
    lambda value: st.tuples(st.just(value), st.one_of(_other_forms(value), values))
)
"""Two values that have more to do with each other than chance would give."""

objects = st.dictionaries(st.sampled_from(NAMES), values)
variable_maps = st.fixed_dictionaries(
    {"now": times}, optional={root: st.one_of(objects, values) for root in ROOTS}
)

FRAGMENTS = (
    *(operator.value for operator in Operator),
    *"()[]!{}.,'\"\\$:-",
    *("+", "*", "/", "if(", "any(", "sum(", "item.a", "round("),
    *(
        "&&",
        "||",
        "AND",
        "or",
        "not",
        "=",
        "true",
        "null",
        "entity.a",
        "org",
        "1",
        "2.5",
        "'x'",
        " ",
        "\n",
        "{{",
        "}}",
    ),
    *("(a.b", ":k", "$v", "é", "а", "\ud800", "\x00"),
)
token_soup = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)
any_text = st.one_of(st.text(st.characters(), max_size=80), token_soup)

_KEYS = st.sampled_from(["all", "any", "not", "field", "op", "value", "expression"])
json_conditions: st.SearchStrategy[Any] = st.recursive(
    st.one_of(values, st.just({"expression": "a > 1"}), st.just({"field": "a", "op": "in", "value": [1.5]})),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(_KEYS, inner, max_size=3),
        st.fixed_dictionaries({"all": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=8,
)
"""What might be handed in as a JSON condition, right or wrong."""
