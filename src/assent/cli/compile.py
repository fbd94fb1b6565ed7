"""`assent compile`: the frozen, hashed workflow that an engine would run."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from pathlib import Path
from typing import Annotated

import typer

from assent.cli.options import JsonOption, PathArgument

OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write the JSON into this file.")]


def compile_(path: PathArgument, json: JsonOption = False, out: OutOption = None) -> None:
    """Compile contracts with their patches, and flows; print a summary, or the whole workflow as JSON."""
    from assent.cli.compile_paths import as_json, compiled_at, one_line

    found = compiled_at(path)
    if out is not None:
        out.write_text(as_json(found), encoding="utf-8")
    if json:
        typer.echo(as_json(found), nl=False)
    else:
        typer.echo("\n".join(one_line(workflow) for workflow in found))
