"""Settings classes in tests: read them from given variables, and compare their defaults with a page."""

from collections.abc import Mapping
from typing import TypeVar

import pytest

from assent.store.environment import EnvironmentSettings

S = TypeVar("S", bound=EnvironmentSettings)


def read_from(cls: type[S], variables: Mapping[str, str]) -> S:
    """Return the settings that a process with these environment variables has."""
    with pytest.MonkeyPatch.context() as patch:
        for name, text in variables.items():
            patch.setenv(name, text)
        return cls()


def defaults_of(*classes: type[EnvironmentSettings]) -> dict[str, str]:
    """Return the variables of these classes with their defaults as a page shows them: nothing for an empty one."""
    return {
        cls.variable(name): str(field.default) if isinstance(field.default, int | str) else ""
        for cls in classes
        for name, field in cls.model_fields.items()
    }
