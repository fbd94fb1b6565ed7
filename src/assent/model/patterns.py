"""Patterns of text: regular expressions in the syntax of RE2, which takes time in proportion to the text.

A pattern describes the whole text. There are no back references and no look-around, and no pattern is slow.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

PATTERN_CHARACTERS_MAX: Final = 500
PATTERN_BYTES_MAX: Final = 1 << 20
"""Of memory for a compiled pattern: `((a{100}){100}){100}` is short and would be large."""

Matcher = Callable[[str], bool]


@lru_cache(maxsize=1_000)
def compile_pattern(pattern: str) -> Matcher | str:
    """Return a test of whole texts, or what is wrong with the pattern."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        return f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters, this one has {len(pattern)}"
    # Imported here: contracts without a pattern do not pay for it.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        return _reason(error)
    except UnicodeEncodeError:
        return "half of a surrogate pair is no character"

    def matches(text: str) -> bool:
        try:
            return compiled.fullmatch(text) is not None
        except UnicodeEncodeError:
            # Half of a surrogate pair: no pattern can name it.
            return False

    return matches


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
