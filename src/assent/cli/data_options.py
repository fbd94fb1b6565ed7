"""Data as people type it: `--data total=500`, or a file of JSON."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

DataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        "-d",
        metavar="KEY=VALUE",
        help="A value, as JSON where it is JSON (500, true, [1]), else as text; may be given several times.",
    ),
]
JsonDataOption = Annotated[
    Path | None,
    typer.Option("--json-data", metavar="FILE", help="A file with a JSON object, or - for standard input."),
]


def given_data(pairs: list[str] | None, file: Path | None) -> dict[str, Any]:
    """What the options say together; a pair wins over the file."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"expected KEY=VALUE, found {pair!r}", param_hint="--data")
        if key in found:
            raise typer.BadParameter(f"{key!r} is given twice", param_hint="--data")
        found[key] = _value(value)
    return (_object_in(file) if file is not None else {}) | found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _object_in(file: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        found = json.loads(text, parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"expected JSON in {file}: {error}", param_hint="--json-data") from error
    if not isinstance(found, dict):
        what = f"expected a JSON object in {file}, found {type(found).__name__}"
        raise typer.BadParameter(what, param_hint="--json-data")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
