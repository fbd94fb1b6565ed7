"""Which members a text mentions."""

import pytest

from assent.people.comments import mentioned_in, names_in

MEMBERS = ["bob", "bob.roe", "ann@example.com", "auth0|77", "zoë", "o'neil"]


@pytest.mark.parametrize(
    ("text", "mentioned"),
    [
        ("@bob", ["bob"]),
        ("@bob, is it right?", ["bob"]),
        ("(@bob)", ["bob"]),
        ("Hello @bob.", ["bob"]),
        ("@bob.roe has it", ["bob.roe"]),
        ("@bob.roe.", ["bob.roe"]),
        ("@bob,@zoë", ["bob", "zoë"]),
        ("@bob @bob", ["bob"]),
        ("@ann@example.com", ["ann@example.com"]),
        ("@auth0|77: look", ["auth0|77"]),
        ("@o'neil's", ["o'neil"]),
        ("@bobby", []),
        ("mail@bob", []),
        ("bob", []),
        ("@", []),
        ("@@bob", []),
        ("@stranger", []),
    ],
)
def test_members_are_named_by_their_id_after_an_at(text: str, mentioned: list[str]) -> None:
    assert mentioned_in(text, MEMBERS) == mentioned
    assert set(mentioned) <= set(names_in(text))


def test_a_long_text_has_few_candidates() -> None:
    assert len(names_in("@" + "a." * 1_000)) <= 100
    assert len(names_in("@a." * 660)) < 20_000
