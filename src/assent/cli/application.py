"""Finding the application that a command works for: `--app module:name`."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assent.app import App

AppOption = Annotated[
    str | None,
    typer.Option("--app", envvar="ASSENT_APP", help="The application, as module:name of its App object."),
]


def load_app(place: str) -> "App":
    """The App at `module:name`; a usage error says what was found instead. Modules are also looked for here."""
    from assent.app import App

    module_name, colon, name = place.partition(":")
    if not (module_name and colon and name):
        raise typer.BadParameter(f"expected module:name, such as shop.main:app, found {place!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise typer.BadParameter(
            f"no module {error.name!r}: run this where {module_name!r} can be imported"
        ) from error
    found = getattr(module, name, None)
    if not isinstance(found, App):
        raise typer.BadParameter(f"expected an App under {place!r}, found {type(found).__name__}")
    return found
