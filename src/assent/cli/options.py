"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

PathArgument = Annotated[Path, typer.Argument(help="A file, a folder, or - for standard input.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
