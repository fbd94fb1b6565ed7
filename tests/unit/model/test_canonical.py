"""Canonical JSON: one text for every logically equal value, and nothing in it that a reader would change."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.model.canonical import (
    DEPTH_MAX,
    INTEGER_MAX,
    NotCanonical,
    canonical_hash,
    canonical_json,
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


def test_the_order_of_keys_does_not_matter() -> None:
    assert canonical_hash({"b": 1, "a": {"d": 2, "c": 3}}) == canonical_hash({"a": {"c": 3, "d": 2}, "b": 1})


def test_there_is_no_white_space_and_null_is_kept() -> None:
    assert canonical_json({"b": [1, 2], "a": None}) == b'{"a":null,"b":[1,2]}'


def test_one_and_one_point_zero_are_one_number() -> None:
    assert canonical_hash({"n": 1.0}) == canonical_hash({"n": 1})


def test_keys_are_sorted_by_code_point_at_every_depth() -> None:
    assert canonical_json([{"é": 1, "z": 2, "a": 3}]) == '[{"a":3,"z":2,"é":1}]'.encode()


def test_different_values_have_different_hashes() -> None:
    different: list[Any] = [None, False, 0, "", [], {}, [None], {"a": None}, "0", [0], {"a": 0}, 0.5]
    assert len({canonical_hash(value) for value in different}) == len(different)


@given(values)
def test_what_is_written_reads_back_equal(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text("abc"), values, max_size=5))
def test_shuffled_keys_give_the_same_bytes(value: dict[str, Any]) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ({"a": [1, math.nan]}, "NUMBER_NOT_KEPT", ("a", 1)),
        ({"a": math.inf}, "NUMBER_NOT_KEPT", ("a",)),
        ({"a": INTEGER_MAX + 1}, "NUMBER_NOT_KEPT", ("a",)),
        ([-INTEGER_MAX - 1], "NUMBER_NOT_KEPT", (0,)),
        ({"a": "x\x00"}, "TEXT_NOT_KEPT", ("a",)),
        ({"a": "\ud800"}, "TEXT_NOT_KEPT", ("a",)),
        ({"a": {"b\x00": 1}}, "TEXT_NOT_KEPT", ("a",)),
        ({"a": {1: 2}}, "WRONG_TYPE", ("a",)),
        ({"a": {1, 2}}, "WRONG_TYPE", ("a",)),
        ({"a": b"x"}, "WRONG_TYPE", ("a",)),
        (nested(DEPTH_MAX + 1), "TOO_DEEP", (0,) * (DEPTH_MAX + 1)),
    ],
)
def test_what_json_cannot_keep_is_refused_with_its_place(value: Any, code: str, path: Any) -> None:
    with pytest.raises(NotCanonical) as caught:
        canonical_json(value)
    assert (caught.value.code, caught.value.path) == (code, path)


def test_the_limits_themselves_are_let_in() -> None:
    canonical_json([INTEGER_MAX, -INTEGER_MAX])
    canonical_json(nested(DEPTH_MAX))
