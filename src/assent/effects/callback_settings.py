"""Where outside parties find us when they call back, and what their addresses are signed with.

The effects worker signs, the HTTP door reads: both need the same settings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from assent.model.parse import shown
from assent.model.problems import Invalid, Problem
from assent.store.environment import bad_setting, number, read_environment, read_secret, variable

PREFIX: Final = "ASSENT_CALLBACKS_"
KEY_BYTES_MIN: Final = 32
"""A shorter key of HS256 can be guessed from one token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSettings:
    """The field `url` is the variable `ASSENT_CALLBACKS_URL`; without both of them nobody is given a callback."""

    url: str = ""
    """Where the HTTP door can be reached from outside, such as `https://assent.example.com`."""
    key: str = field(default="", repr=False)
    """What callbacks are signed with; `@` and a file's name reads it from there."""
    days: int = number(90, 1, 3_650)
    """How long a callback holds after it was sent out."""

    def __post_init__(self) -> None:
        if problems := list(_contradictions(self)):
            raise Invalid(problems)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """The settings that the environment holds; `Invalid` lists every variable that is wrong."""
        return read_environment(cls, PREFIX, {"url": _read_url, "key": read_secret}, environment)


def _contradictions(settings: CallbackSettings) -> Iterator[Problem]:
    """The key itself is never shown."""
    if bool(settings.url) != bool(settings.key):
        missing = "key" if settings.url else "url"
        yield bad_setting(variable(PREFIX, missing), "expected a URL and a key together, found one alone")
    if settings.key and len(settings.key.encode()) < KEY_BYTES_MIN:
        yield bad_setting(
            variable(PREFIX, "key"), f"expected at least {KEY_BYTES_MIN} bytes for HS256, found fewer"
        )


def _read_url(name: str, text: str) -> str | Problem:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:
        good = False
    if not good:
        return bad_setting(name, f"expected a URL such as https://assent.example.com, found {shown(text)}")
    return text.rstrip("/")
