"""What counts as a traceparent, and what is read of it."""

import pytest

from assent.telemetry import is_sampled, is_traceparent, trace_id_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("flags", "sampled"), [("01", True), ("00", False), ("03", True), ("02", False), ("ff", True)]
)
def test_lowest_flag_says_whether_it_is_sampled(flags: str, sampled: bool) -> None:
    assert is_sampled(f"00-{TRACE}-{SPAN}-{flags}") is sampled


@pytest.mark.parametrize("text", [f"00-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-comes-later"])
def test_versions_to_come_are_read_as_far_as_they_are_known(text: str) -> None:
    assert is_traceparent(text)
    assert trace_id_of(text) == TRACE


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "order 4711",
        TRACE,
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_anything_else_is_none(text: str | None) -> None:
    assert not is_traceparent(text)
    assert not is_sampled(text)


def test_other_text_is_its_own_id() -> None:
    assert trace_id_of("order 4711") == "order 4711"
