"""`assent diagram`: a workflow as a picture, in Mermaid."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import typer

from assent.cli.options import PathArgument


def diagram(path: PathArgument) -> None:
    """Print the workflow at PATH as a Mermaid flowchart; several are each headed by a comment."""
    from assent.cli.compile_paths import compiled_at
    from assent.compiler.diagram import diagram as drawn

    workflows = compiled_at(path)
    for workflow in workflows:
        if len(workflows) > 1:
            typer.echo(f"%% {workflow.key} {workflow.version}")
        typer.echo(drawn(workflow), nl=False)
