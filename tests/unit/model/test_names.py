"""Names have something to see in them; what shows nothing is one set, in Python and, by a test of the store, in SQL."""

import unicodedata

import pytest

from assent.model.mutation import Refused
from assent.model.names import is_blank, problem_of_id, require_name

_SEPARATORS_CONTROLS_FORMATS = ("Cc", "Cf", "Zs", "Zl", "Zp")


@pytest.mark.parametrize(
    "text", ["", " ", "\t", "\n", "\u00a0", "\u200b", "\u3000", "\ufeff", " \u200b\t\u00a0"]
)
def test_blank_text_names_nothing(text):
    assert is_blank(text)
    with pytest.raises(Refused, match="BLANK at key"):
        require_name(text, "key")


@pytest.mark.parametrize("text", ["a", " a ", "0", "-", "名", "🧾", "\u200ba"])
def test_text_with_something_to_see_is_a_name(text):
    require_name(text, "key")


def test_every_separator_control_and_format_shows_nothing():
    """NUL is no text that can be kept, and is refused as such."""
    seen = [
        chr(code)
        for code in range(1, 0x110000)
        if unicodedata.category(chr(code)) in _SEPARATORS_CONTROLS_FORMATS and not is_blank(chr(code))
    ]
    assert seen == []


def test_everything_that_shows_nothing_is_refused_in_the_id_of_a_member():
    """The two rules agree: what is blank by itself is invisible inside an id."""
    assert [code for code in range(1, 0x110000) if is_blank(chr(code)) and not problem_of_id(chr(code))] == []


@pytest.mark.parametrize("text", ["a\x00", "\ud800"])
def test_text_that_cannot_be_kept_is_refused(text):
    with pytest.raises(Refused):
        require_name(text, "key")


def test_name_is_no_longer_than_it_may_be():
    require_name("k" * 255, "key", length_max=255)
    with pytest.raises(Refused, match="TOO_LONG"):
        require_name("k" * 256, "key", length_max=255)
