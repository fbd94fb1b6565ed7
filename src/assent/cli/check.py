"""`assent check`: every problem of what authors wrote, each with its line."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from pathlib import Path
from typing import Annotated

import typer

from assent.cli.options import JsonOption


def check(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders, or - for standard input.")],
    json: JsonOption = False,
) -> None:
    """Check contracts, patches and flows, and print every problem. Exit code 1 means that there are some."""
    from assent.cli.files import sources_at
    from assent.cli.report import counted, print_json, print_problems, print_summary
    from assent.compiler.declarations import compile_sources

    sources = sources_at(paths)
    found = compile_sources(sources)
    if json:
        print_json(
            {
                "problems": [problem.to_json() for problem in found.problems],
                "workflows": [{"key": w.key, "version": w.version, "hash": w.hash} for w in found.workflows],
            }
        )
    else:
        print_problems(found.problems, sources)
        what = f"{counted(len(sources), 'document')}, {counted(len(found.workflows), 'workflow')}"
        skipped = f" ({counted(len(found.scenarios), 'scenario')} not run)" if found.scenarios else ""
        print_summary(found.problems, what + skipped)
    raise typer.Exit(1 if found.problems else 0)
