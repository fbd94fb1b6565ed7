"""The URL that outside parties call back, and the key that signs it.

The effects worker signs and the HTTP API verifies: both need the same settings.
"""

from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from assent.model.parse import shown
from assent.model.problems import Invalid
from assent.store.environment import EnvironmentSettings, number, read_secret

KEY_BYTES_MIN: Final = 32
"""A shorter key of HS256 can be guessed from one token."""


def _check_url(url: str) -> str:
    if not url:
        return url
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError(f"expected a URL such as https://assent.example.com, found {shown(url)}")
    return url.rstrip("/")


class CallbackSettings(EnvironmentSettings):
    """The field `url` is the variable `ASSENT_CALLBACKS_URL`; without both of them there are no callbacks."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_CALLBACKS_")

    url: Annotated[str, AfterValidator(_check_url)] = ""
    """Where the HTTP API can be reached from outside, such as `https://assent.example.com`."""
    key: Annotated[str, AfterValidator(read_secret)] = Field(default="", repr=False)
    """The key that signs callbacks; `@` and a file's name reads it from there."""
    days: int = number(90, 1, 3_650)
    """How many days a callback is valid after it was sent out."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Raise `Invalid` without showing the key."""
        problems = []
        if bool(self.url) != bool(self.key):
            missing = "key" if self.url else "url"
            problems.append(self.bad(missing, "expected a URL and a key together, found one alone"))
        if self.key and len(self.key.encode()) < KEY_BYTES_MIN:
            problems.append(
                self.bad("key", f"expected at least {KEY_BYTES_MIN} bytes for HS256, found fewer")
            )
        if problems:
            raise Invalid(problems)
        return self
