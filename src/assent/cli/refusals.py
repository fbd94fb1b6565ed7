"""Why a command failed: the text or JSON that it prints on standard error, and its exit code."""

from typing import Final, NoReturn

import typer
from rich.text import Text

from assent import refusals
from assent.cli.output import console, print_json, safe
from assent.model.mutation import Rejection
from assent.model.problems import format_path

FAILED: Final = 1
UNKNOWN: Final = 3
"""Exit codes. After UNKNOWN the command may have been carried out or not."""


def rejection_from(error: Exception) -> Rejection | None:
    """Return what an error means for the operator, with its text; None for an unexpected error."""
    return refusals.rejection_from(error, reveals_errors=True)


def exit_code(rejection: Rejection) -> int:
    """Return the exit code of a command that ends with this rejection."""
    return UNKNOWN if rejection.code == "OUTCOME_UNKNOWN" else FAILED


def exit_with(error: Exception, *, json: bool = False) -> NoReturn:
    """Print why a command failed and exit with its code; raise an unexpected error again."""
    rejection = rejection_from(error)
    if rejection is None:
        raise error
    print_rejection(rejection, json=json)
    raise typer.Exit(exit_code(rejection)) from None


def print_rejection(rejection: Rejection, *, json: bool) -> None:
    """On standard error, so that standard output holds the requested output or nothing."""
    if json:
        print_json(as_json(rejection), stderr=True)
    else:
        console(stderr=True).print(as_text(rejection))


def as_json(rejection: Rejection) -> dict[str, object]:
    """Return the problem that HTTP replies with, without the path of a request."""
    from assent.bodies.problems import ProblemBody

    return ProblemBody.of_rejection(rejection).model_dump(mode="json", exclude_none=True)


def as_text(rejection: Rejection) -> Text:
    text = Text("✗ ", "red").append(rejection.code, "red")
    if len(rejection.problems) > 1:
        for problem in rejection.problems:
            text.append(f"\n  {problem.code} ", "red").append(_at(problem.where) + safe(problem.message))
            text.append(_hint(problem.hint, indent="    "))
        return text
    text.append(" ").append(_at(format_path(rejection.path)) + safe(rejection.message))
    return text.append(_hint(rejection.hint, indent="  "))


def _at(place: str) -> str:
    return f"{safe(place)}: " if place else ""


def _hint(hint: str | None, *, indent: str) -> Text:
    return Text(f"\n{indent}hint: ", "cyan").append(safe(hint), "default") if hint else Text()
