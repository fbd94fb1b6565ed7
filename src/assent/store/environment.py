"""Settings by environment variable: a frozen dataclass, one variable for each of its fields.

An empty variable counts as unset. Every variable that is wrong is told at once, by its name.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from assent.model.parse import shown
from assent.model.problems import Invalid, Problem

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")
Reader = Callable[[str, str], Any]
"""Makes a value of a variable's name and its text, or a problem."""


def number(default: int, least: int, most: int) -> Any:
    """A field that is a whole number from `least` to `most`."""
    return field(default=default, metadata={"least": least, "most": most})


def read_environment(
    cls: type[S],
    prefix: str,
    readers: Mapping[str, Reader] | None = None,
    given: Mapping[str, str] | None = None,
) -> S:
    """A `cls` of what the environment holds; `readers` has those of fields that are no numbers."""
    environment = os.environ if given is None else given
    values: dict[str, Any] = {}
    for setting in fields(cls):
        name = variable(prefix, setting.name)
        # An empty variable counts as unset: `ASSENT_DATA_DIR= make demo` means the default.
        if text := environment.get(name, "").strip():
            read = (readers or {}).get(setting.name) or _number_reader(setting)
            values[setting.name] = read(name, text)
    if problems := [value for value in values.values() if isinstance(value, Problem)]:
        raise Invalid(problems)
    return cls(**values)


def read_secret(name: str, text: str) -> str | Problem:
    """A secret, or the file that holds it, as `@/run/secrets/jwt.pem`."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        return bad_setting(name, f"cannot read the file: {type(error).__name__}")


def variable(prefix: str, name: str) -> str:
    """The environment variable of a setting."""
    return prefix + name.upper()


def bad_setting(name: str, message: str) -> Problem:
    """What is wrong with a variable."""
    return Problem(code="BAD_SETTING", path=(name,), message=message, hint="correct or unset the variable")


def _number_reader(setting: Field[Any]) -> Reader:
    def read(name: str, text: str) -> int | Problem:
        least, most = setting.metadata["least"], setting.metadata["most"]
        # Only plain ASCII digits: int() would also take `1_000`, ` 7` and digits of other scripts.
        found = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
        if found is None or not least <= found <= most:
            return bad_setting(name, f"expected a whole number from {least} to {most}, found {shown(text)}")
        return found

    return read
