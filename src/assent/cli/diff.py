"""`assent diff`: what an org changed of an envelope, or what a new version changes."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from pathlib import Path
from typing import Annotated

import typer

from assent.cli.options import JsonOption, PathArgument

NewerArgument = Annotated[
    Path | None, typer.Argument(help="The newer version; without it, the bare envelope is older.")
]


def diff(path: PathArgument, newer: NewerArgument = None, json: JsonOption = False) -> None:
    """Print what differs, slot by slot: a contract's patches against its bare envelope, or two versions."""
    from assent.cli.compile_paths import changes_of_patches, changes_of_versions
    from assent.cli.report import print_json

    found = changes_of_patches(path) if newer is None else changes_of_versions(path, newer)
    if json:
        print_json([difference.to_json() for difference in found])
    else:
        typer.echo("\n".join(difference.to_text() for difference in found), nl=False)
