"""Ids of members: one spelling for each."""

import sys
import unicodedata

import pytest

from assent.model.names import ID_LENGTH_MAX, problem_of_id


@pytest.mark.parametrize(
    "user_id",
    [
        "alice",
        "Alice",
        "ann@example.com",
        "auth0|5f7c88e1",
        "00u1abcDEF",
        "müller",
        "женя",
        "李雷",
        "o'neil",
        "a",
        "a" * 200,
    ],
)
def test_id_in_its_one_spelling_is_taken(user_id):
    assert problem_of_id(user_id) is None


@pytest.mark.parametrize(
    ("user_id", "said"),
    [
        ("", "1 to 200"),
        ("a" * (ID_LENGTH_MAX + 1), "1 to 200"),
        ("system", "reserved"),
        ("SYSTEM", "reserved"),
        ("*", "reserved"),
        ("ali ce", "U+0020"),
        (" alice", "U+0020"),
        ("alice ", "U+0020"),
        ("alice\u00a0", "U+00A0"),
        ("alice\r\n", "U+000D"),
        ("alice\x00", "U+0000"),
        ("alice\u200b", "U+200B"),
        ("alice\ufeff", "U+FEFF"),
        ("\u202ealice", "U+202E"),
        ("\u2066alice", "U+2066"),
        ("alice\u00ad", "U+00AD"),
        ("alice\u3164", "U+3164"),
        ("alice\ufe0f", "U+FE0F"),
        ("alice\u2800", "U+2800"),
        ("alice\ud800", "U+D800"),
        ("\uff41lice", "`alice`"),
        ("mu\u0308ller", "`müller`"),
        ("\u2160van", "`Ivan`"),
    ],
)
def test_other_spelling_is_refused(user_id, said):
    assert said in (problem_of_id(user_id) or "")


def test_no_single_character_is_a_blank_or_changes_under_normalisation():
    taken = [chr(code) for code in range(sys.maxunicode + 1) if problem_of_id(chr(code)) is None]
    assert all(not one.isspace() and one.isprintable() for one in taken)
    assert all(unicodedata.normalize("NFKC", one) == one for one in taken)
