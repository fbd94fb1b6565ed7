"""YAML becomes plain data, with YAML 1.1's surprises left out."""

import pytest

from assent.compiler.source import read_source, read_sources


def read(text: str | bytes) -> object:
    source = read_source(text, "t.yaml")
    assert source.problems == ()
    return source.data


def codes(text: str | bytes) -> list[str]:
    return [problem.code for problem in read_source(text, "t.yaml").problems]


def test_on_no_yes_and_off_stay_text_as_keys_and_as_values() -> None:
    assert read("{from: a, on: no, yes: off, country: NO}") == {
        "from": "a",
        "on": "no",
        "yes": "off",
        "country": "NO",
    }


@pytest.mark.parametrize(
    "text",
    ["2024-05-01", "2024-05-01T10:00:00Z", "12:30:00", "0x1F", "0o17", "007", "1_000", ".inf", "+5", "1."],
)
def test_only_json_numbers_are_numbers(text: str) -> None:
    assert read(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-12", -12),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
    ],
)
def test_json_words_and_numbers_are_read(text: str, value: object) -> None:
    found = read(f"v: {text}")
    assert found == {"v": value}
    assert type(found["v"]) is type(value)  # type: ignore[index]


def test_quoted_scalars_are_always_text() -> None:
    assert read("""{a: "5", b: 'true', c: "null", d: ''}""") == {"a": "5", "b": "true", "c": "null", "d": ""}


def test_keys_are_always_text() -> None:
    assert read("{1: a, true: b, null: c, 2024-01-01: d}") == {
        "1": "a",
        "true": "b",
        "null": "c",
        "2024-01-01": "d",
    }


def test_block_scalars_keep_their_lines() -> None:
    assert read("a: |\n  one\n  two\nb: >\n  three\n  four\n") == {"a": "one\ntwo\n", "b": "three four\n"}


def test_json_is_read_as_it_is() -> None:
    assert read('{"a": [1, {"b": null}], "c": "\\u00e9"}') == {"a": [1, {"b": None}], "c": "é"}


def test_text_in_any_language_is_welcome_in_values() -> None:
    assert read("label: Größe 大きさ размер 👩‍🔧") == {"label": "Größe 大きさ размер 👩‍🔧"}


def test_a_leading_byte_order_mark_is_skipped() -> None:
    source = read_source(b"\xef\xbb\xbfa: 1", "t.yaml")
    assert source.data == {"a": 1}
    assert source.position(("a",)).column == 4


def test_several_documents_are_read_in_order_with_lines_of_the_whole_text() -> None:
    first, second = read_sources("contract: a\n---\npatch: b\n", "t.yaml")
    assert (first.data, second.data) == ({"contract": "a"}, {"patch": "b"})
    assert second.position(("patch",)).line == 3


def test_several_documents_are_a_problem_where_one_was_expected() -> None:
    source = read_source("a: 1\n---\nb: 2\n", "t.yaml")
    assert [(p.code, p.position and p.position.line) for p in source.problems] == [("SEVERAL_DOCUMENTS", 3)]


@pytest.mark.parametrize("text", ["", "   \n\n", "# only a comment\n", b"\xef\xbb\xbf"])
def test_nothing_at_all_is_a_problem(text: str | bytes) -> None:
    assert codes(text) == ["EMPTY_SOURCE"]


def test_every_problem_is_reported_not_only_the_first() -> None:
    text = "a: 1\na: 2\nb: &x 1\nc: *x\nd: !!int 5\n<<: {e: 1}\nf: 99999999999999999999\n? [g]\n: 1\n"
    assert codes(text) == [
        "DUPLICATE_KEY",
        "ANCHOR",
        "ALIAS",
        "TAG",
        "MERGE_KEY",
        "NUMBER_NOT_KEPT",
        "BAD_KEY",
    ]


def test_the_first_of_two_equal_keys_counts() -> None:
    assert read_source("a: 1\na: {b: 2}\nc: 3", "t.yaml").data == {"a": 1, "c": 3}


def test_the_value_of_a_refused_key_goes_nowhere() -> None:
    assert read_source("? {x: [1, 2]}\n: {y: [3]}\nz: 4", "t.yaml").data == {"z": 4}


def test_a_quoted_merge_key_is_a_name_like_any_other() -> None:
    assert read("'<<': 1") == {"<<": 1}


@pytest.mark.parametrize(
    "key",
    ["\u0441ontract", "p\u0430tch", "\uff46low", "\u03bfrder"],
    ids=["cyrillic es", "cyrillic a", "fullwidth f", "greek omicron"],
)
def test_a_key_that_mixes_alphabets_is_a_problem_that_names_the_letter(key: str) -> None:
    (problem,) = read_source(f"{key}: 1", "t.yaml").problems
    assert problem.code == "LOOK_ALIKE"
    assert problem.hint is not None
    assert "U+" in problem.hint


def test_a_key_in_one_alphabet_is_left_to_the_models() -> None:
    assert codes("größe: 1") == []
    assert codes("размер: 1") == []


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\u2066", "\ufeff", "\U000e0041"],
)
def test_invisible_characters_are_a_problem_where_they_stand(character: str) -> None:
    (problem,) = read_source(f"a: 1\nb: x{character}y\n", "t.yaml").problems
    assert problem.code == "BAD_CHARACTER"
    assert str(problem.position) == "Position(line=2, column=5)"


@pytest.mark.parametrize("escape", [r"\0", r"\e", r"\x7f", r"\u202e", r"\N"])
def test_escapes_do_not_smuggle_such_characters_in(escape: str) -> None:
    assert codes(f'a: "x{escape}"') == ["BAD_CHARACTER"]
    assert codes(f'"x{escape}": 1') == ["BAD_CHARACTER"]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [(b"a: 1\nb: \xff\n", 2, 4), ("a: \ud800", 1, 4), ("a: 1".encode("utf-16"), 1, 1)],
)
def test_what_is_not_utf8_is_a_problem_at_its_place(text: str | bytes, line: int, column: int) -> None:
    (problem,) = read_source(text, "t.yaml").problems
    assert problem.code == "NOT_UTF8"
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (line, column)
