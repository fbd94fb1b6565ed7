"""Any text or bytes is read without an exception; what JSON holds comes back unchanged."""

import orjson
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assent.compiler.source import Source, SourceLimits, read_sources
from assent.compiler.tree import read_documents
from assent.model.canonical import NotCanonical, require_canonical

MARKS = [*"[]{},:-?&*!|>'\"%@`#~\n \t\\", "- ", ": ", "? ", "---\n", "...\n", "\r\n", "|2-\n", "  "]
WORDS = ["<<: ", "&a ", "*a", "!!str ", "a", "on", "1", "0.1", "null", "%YAML 1.2\n", '"\\x', "\\U0011"]
STRANGE = ["\ufeff", "\u2028", "é", "\x00"]
YAML_PIECES = st.sampled_from([*MARKS, *WORDS, *STRANGE])
YAML_LIKE = st.lists(YAML_PIECES, max_size=60).map("".join)

VISIBLE = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | VISIBLE | st.floats(-1e300, 1e300)
)
JSON = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(NAMES, v, max_size=4), max_leaves=20
)


def is_sound(source: Source) -> bool:
    """Every problem has a place, and data without problems is JSON that can be kept."""
    assert all(problem.position is not None and problem.source == "any" for problem in source.problems)
    if not source.problems:
        require_canonical(source.data)
    return True


@given(st.text(max_size=200) | st.binary(max_size=200) | YAML_LIKE)
@example("\ud800")
@example('"\\ud800"')
@example("%YAML 1.99999999999999999999\n---\n")
@settings(max_examples=1000, deadline=None)
def test_any_input_is_read_without_an_exception(text: str | bytes) -> None:
    sources = read_sources(text, "any")
    assert sources
    assert all(is_sound(source) for source in sources)


@given(YAML_LIKE)
@settings(max_examples=500, deadline=None)
def test_the_pure_parser_raises_nothing_either(text: str) -> None:
    for document in read_documents(text, SourceLimits(), yaml.BaseLoader):
        assert document.problems or _is_canonical(document.data)


@given(JSON)
@settings(max_examples=500, deadline=None)
def test_json_comes_back_unchanged(value: object) -> None:
    (source,) = read_sources(orjson.dumps({"value": value}), "any")
    assert source.problems == ()
    assert source.data == {"value": value}


@given(
    st.dictionaries(
        NAMES, st.dictionaries(NAMES, st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=4
    )
)
@settings(max_examples=200, deadline=None)
def test_every_value_is_found_where_it_is_written(data: dict[str, dict[str, int]]) -> None:
    (source,) = read_sources(yaml.safe_dump(data), "any")
    for outer, inner in data.items():
        for key, value in inner.items():
            position = source.position((outer, key))
            assert source.line(position.line)[position.column - 1 :] == str(value)
            at_key = source.key_position((outer, key))
            assert source.line(at_key.line)[at_key.column - 1 :].strip("'").startswith(key)


def _is_canonical(value: object) -> bool:
    try:
        require_canonical(value)
    except NotCanonical:
        return False
    return True
