"""Arguments and options that several commands share."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from pathlib import Path
from typing import Annotated

import typer

PathArgument = Annotated[Path, typer.Argument(help="A file, a folder, or - for standard input.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def named(text: str | None) -> str | None:
    """Return a name that was given; raise `BadParameter` for a blank one, such as an empty variable of a script."""
    from assent.model.names import is_blank

    if text is not None and is_blank(text):
        raise typer.BadParameter(f"expected a text with something to see in it, found {text!r}")
    return text
