"""`assent expression`: what an expression means — its tree, its type, and why its value is what it is."""

from pathlib import Path
from typing import Annotated

import typer

from assent.cli.options import JsonOption

TextArgument = Annotated[str, typer.Argument(help="The expression, in quotes.")]
ContractOption = Annotated[
    Path | None, typer.Option("--contract", help="A contract; variables and types are checked against it.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="A variable, such as `entity.total=5`; may be repeated.")
]


def expression(
    text: TextArgument, contract: ContractOption = None, settings: SetOption = None, json: JsonOption = False
) -> None:
    """Print an expression's tree and type, and explain its value for the variables given with --set."""
    from assent.cli.expression_report import explained, explained_json, read, scope_at, variables_from
    from assent.cli.output import print_json, print_problems

    scope, variables = scope_at(contract), variables_from(settings or [])
    source, reading, problems = read(text, scope)
    if reading is None:
        print_json({"problems": [p.to_json() for p in problems]}) if json else print_problems(
            problems, [source]
        )
        raise typer.Exit(1)
    if json:
        print_json(explained_json(reading, variables))
    else:
        typer.echo(explained(reading, variables if settings else None))
