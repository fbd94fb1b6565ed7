"""What can be set from outside, all of it by environment variable, each number with its unit in its name."""

import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from assent.model.parse import shown
from assent.model.problems import Invalid, Problem

PREFIX: Final = "ASSENT_"


def _number(default: int, least: int, most: int) -> Any:
    return field(default=default, metadata={"least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the store; the field `lock_timeout_ms` is the variable `ASSENT_LOCK_TIMEOUT_MS`."""

    database_url: str | None = None
    """A PostgreSQL server from 15 on; without it we start our own."""
    data_dir: Path | None = None
    """Where our own server keeps its data; without it, the user's data folder."""
    pool_connections_min: int = _number(1, 1, 1_000)
    pool_connections_max: int = _number(10, 1, 1_000)
    pool_wait_timeout_ms: int = _number(30_000, 1, 600_000)
    connect_timeout_ms: int = _number(10_000, 1, 600_000)
    statement_timeout_ms: int = _number(30_000, 0, 86_400_000)
    """Zero, here and below, means no limit."""
    lock_timeout_ms: int = _number(10_000, 0, 86_400_000)
    idle_in_transaction_timeout_ms: int = _number(60_000, 0, 86_400_000)
    prepared_statements_max: int = _number(500, 0, 10_000)
    """Kept per connection; zero where a pooler such as PgBouncer sits between."""
    transaction_attempts_max: int = _number(5, 1, 100)
    """How often a transaction that loses against others is run, the first time included."""
    payload_bytes_max: int = _number(1_048_576, 1_024, 268_435_456)
    """The largest payload of a mutation, an event or an effect, as JSON text."""

    def __post_init__(self) -> None:
        if self.pool_connections_min > self.pool_connections_max:
            raise Invalid(
                [
                    _problem(
                        "pool_connections_min",
                        f"expected at most {variable('pool_connections_max')}={self.pool_connections_max}, "
                        f"found {self.pool_connections_min}",
                    )
                ]
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """The settings that the environment holds; `Invalid` lists every variable that is wrong."""
        given = os.environ if environment is None else environment
        # An empty variable counts as unset: `ASSENT_DATA_DIR= make demo` means the default.
        texts = {setting: given.get(variable(setting.name), "").strip() for setting in fields(cls)}
        values = {setting.name: _read(setting, text) for setting, text in texts.items() if text}
        if problems := [value for value in values.values() if isinstance(value, Problem)]:
            raise Invalid(problems)
        return cls(**values)


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def _read(setting: Field[Any], text: str) -> Any:
    if setting.name == "database_url":
        return _read_url(setting.name, text)
    if setting.name == "data_dir":
        return Path(text).expanduser()
    return _read_number(setting.name, text, setting.metadata["least"], setting.metadata["most"])


def _read_url(name: str, text: str) -> str | Problem:
    try:
        scheme = urlsplit(text).scheme
    except ValueError:
        scheme = ""
    if scheme in ("postgresql", "postgres"):
        return text
    # The value is not shown: it may hold a password.
    return _problem(name, "expected postgresql://user:password@host:port/database, found something else")


def _read_number(name: str, text: str, least: int, most: int) -> int | Problem:
    # Only plain ASCII digits: int() would also take `1_000`, ` 7` and digits of other scripts.
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
    if number is None or not least <= number <= most:
        return _problem(name, f"expected a whole number from {least} to {most}, found {shown(text)}")
    return number


def _problem(name: str, message: str) -> Problem:
    return Problem(
        code="BAD_SETTING", path=(variable(name),), message=message, hint="correct or unset the variable"
    )
