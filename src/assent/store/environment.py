"""Settings from environment variables, by pydantic-settings: one class per prefix, one variable per field.

An empty variable counts as unset. `Invalid` lists every variable that is wrong, by its name and without secrets.
"""

from pathlib import Path
from typing import Any, Final, Self, get_args

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from assent.model.parse import shown
from assent.model.problems import Invalid, Problem

_DIGITS_MAX: Final = 15


class EnvironmentSettings(BaseSettings):
    """Base of all settings: `Settings()` reads the environment, and arguments take precedence over it."""

    model_config = SettingsConfigDict(frozen=True, enable_decoding=False)

    @classmethod
    def defaults(cls, **values: Any) -> Self:
        """Return settings with these values, and defaults for the others, whatever the environment holds."""
        fields = cls.model_fields.items()
        return cls(**{name: field.get_default(call_default_factory=True) for name, field in fields} | values)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with these values changed."""
        return type(self)(**dict(self) | changes)

    @classmethod
    def variable(cls, name: str) -> str:
        """Return the environment variable of a field."""
        return f"{cls.model_config['env_prefix']}{name}".upper()

    @classmethod
    def bad(cls, name: str, message: str) -> Problem:
        """Return the problem with the value of a field."""
        return bad_setting(cls.variable(name), message)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments and the environment: no `.env` file, which would depend on the current folder."""
        return init_settings, env_settings

    @model_validator(mode="wrap")
    @classmethod
    def _report_problems(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Raise `Invalid` instead of pydantic's error, which shows values, secrets too."""
        given = {name: value for name, value in values.items() if not _is_blank(value)}
        try:
            return validate(given)
        except ValidationError as error:
            problems = [cls._problem(details) for details in error.errors(include_url=False)]
        raise Invalid(problems)

    @field_validator("*", mode="before")
    @classmethod
    def _read_text(cls, value: Any, info: Any) -> Any:
        """Strip texts; take only plain ASCII digits for a number, where pydantic would take `1_000` and ` 7` too."""
        if not isinstance(value, str):
            return value
        text = value.strip()
        is_number = cls.model_fields[info.field_name].annotation is int
        if is_number and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
            raise ValueError(text)
        return text

    @classmethod
    def _problem(cls, details: ErrorDetails) -> Problem:
        name = str(details["loc"][0])
        field = cls.model_fields.get(name)
        if field is not None and field.annotation is int:
            limits = {type(limit).__name__: limit for limit in field.metadata}
            expected = f"a whole number from {limits['Ge'].ge} to {limits['Le'].le}"
        elif field is not None and details["type"] == "literal_error":
            *choices, last = get_args(field.annotation)
            expected = f"{', '.join(choices)} or {last}"
        else:
            # Errors of validators say what was expected and what was found, and show no secret.
            return cls.bad(name, str(details.get("ctx", {}).get("error", details["msg"])))
        return cls.bad(name, f"expected {expected}, found {shown(details['input'])}")


def number(default: int, least: int, most: int) -> Any:
    """Return a field for a whole number from `least` to `most`."""
    return Field(default=default, ge=least, le=most)


def read_secret(text: str) -> str:
    """Return a secret, or the content of the file that holds it, as `@/run/secrets/jwt.pem`."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read the file: {type(error).__name__}") from error


def split_list(text: str) -> tuple[str, ...]:
    """Return the parts of a text between its commas, without those that are empty."""
    return tuple(part for each in text.split(",") if (part := each.strip()))


def bad_setting(name: str, message: str) -> Problem:
    """Return the problem with the value of an environment variable."""
    return Problem(code="BAD_SETTING", path=(name,), message=message, hint="correct or unset the variable")


def _is_blank(value: Any) -> bool:
    # `ASSENT_DATA_DIR= make demo` means the default.
    return isinstance(value, str) and not value.strip()
