"""An expression read, checked and explained, for `assent expression`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from assent.cli.sources import sources_at
from assent.compiler.source import Source, read_source
from assent.language import (
    OPEN,
    Expression,
    Scope,
    Type,
    check,
    compile_expression,
    explain,
    parse,
    render,
    scope_of,
    tree,
)
from assent.model.contract import parse_contract
from assent.model.problems import Problem


@dataclass(frozen=True, slots=True)
class ExpressionReport:
    """An expression without problems."""

    expression: Expression
    type: Type
    scope: Scope


def read(text: str, scope: Scope) -> tuple[Source, ExpressionReport | None, list[Problem]]:
    """Return the expression in `text`, or its problems, with the text as the source that they point into."""
    source = Source("expression", lines=tuple(text.split("\n")))
    expression, problems = parse(text)
    kind = None
    if expression is not None:
        kind, problems = check(expression, scope)
    reading = ExpressionReport(expression, kind, scope) if expression and kind and not problems else None
    return source, reading, [problem.at(None, source.name) for problem in problems]


def explained(reading: ExpressionReport, variables: dict[str, Any] | None) -> str:
    """Return the tree and the type; with variables, also the value and what decided it."""
    text = f"{tree(reading.expression)}\n\ntype: {reading.type}"
    if variables is None:
        return text
    return f"{text}\n{explain(reading.expression, variables, reading.scope)}"


def explained_json(reading: ExpressionReport, variables: dict[str, Any]) -> dict[str, Any]:
    found = compile_expression(reading.expression, reading.scope)(variables).to_json()
    return found | {
        "canonical": render(reading.expression),
        "tree": tree(reading.expression),
        "type": str(reading.type),
        "explanation": str(explain(reading.expression, variables, reading.scope)),
    }


def scope_at(path: Path | None) -> Scope:
    """Return the scope that the first contract at `path` gives; without a path anything may be named."""
    if path is None:
        return OPEN
    for source in sources_at([path]):
        if isinstance(source.data, dict) and "contract" in source.data:
            contract, problems = parse_contract(source.data)
            if contract is None:
                raise typer.BadParameter(f"{source.name} has problems; see `assent check`: {problems[0]}")
            return scope_of(contract)
    raise typer.BadParameter(f"there is no contract in {path}")


def variables_from(settings: Sequence[str]) -> dict[str, Any]:
    """`entity.total=5` and its like as nested variables; values are read as YAML, an empty one is missing."""
    variables: dict[str, Any] = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"expected NAME=VALUE, found {setting!r}", param_hint="--set")
        _put(variables, name.split("."), _value(text, name))
    return variables


def _value(text: str, name: str) -> Any:
    source = read_source(text or "null", name)
    if source.problems:
        raise typer.BadParameter(str(source.problems[0]), param_hint="--set")
    return source.data


def _put(variables: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        variables = variables.setdefault(part, {})
        if not isinstance(variables, dict):
            raise typer.BadParameter(f"`{part}` was set to a value of its own", param_hint="--set")
    variables[path[-1]] = value
