"""Texts of errors as they are kept, by events and jobs alike."""

from typing import Final

ERROR_CHARACTERS_MAX: Final = 2_000


def clean_error_text(text: str) -> str:
    """Return a text that PostgreSQL can keep: no NUL, no half of a surrogate pair, and not too long."""
    return text.replace("\0", "\ufffd").encode("utf-8", errors="replace").decode()[:ERROR_CHARACTERS_MAX]


def error_text(error: BaseException) -> str:
    """Return the message of an error, cleaned; its type where it has none."""
    return clean_error_text(str(error) or type(error).__name__)


def typed_error_text(error: BaseException) -> str:
    """Return the type and the message of an error, cleaned."""
    return clean_error_text(f"{type(error).__name__}: {error}")
