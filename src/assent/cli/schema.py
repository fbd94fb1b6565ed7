"""`assent schema`: JSON Schemas, with which editors complete and check what authors write."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    CONTRACT = "contract"
    PATCH = "patch"
    FLOW = "flow"


def schema(kind: Annotated[Kind, typer.Argument(help="What the schema is of.")]) -> None:
    """Print the JSON Schema (Draft 2020-12) of a contract, a patch or a flow."""
    from assent.compiler.schemas import schema_text

    typer.echo(schema_text(kind.value), nl=False)
