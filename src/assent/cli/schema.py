"""`assent schema`: JSON Schemas, with which editors complete and check what authors write."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from enum import StrEnum
from typing import Annotated

import typer


class SchemaKind(StrEnum):
    CONTRACT = "contract"
    PATCH = "patch"
    FLOW = "flow"
    SCENARIO = "scenario"


def schema(kind: Annotated[SchemaKind, typer.Argument(help="What the schema is of.")]) -> None:
    """Print the JSON Schema (Draft 2020-12) of a contract, a patch, a flow or a scenario."""
    from assent.compiler.schemas import schema_text, text_of

    if kind is SchemaKind.SCENARIO:
        from assent.testing.schema import scenario_schema

        typer.echo(text_of(scenario_schema()), nl=False)
    else:
        typer.echo(schema_text(kind.value), nl=False)
