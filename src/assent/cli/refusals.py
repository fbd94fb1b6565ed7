"""Why a command failed: the text or JSON that it prints on standard error, and its exit code."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn

import typer
from rich.text import Text

from assent.cli.output import console, print_json, safe
from assent.cli.remote import ServerRefusal
from assent.model.mutation import Rejection
from assent.model.problems import Path, format_path

FAILED: Final = 1
UNKNOWN: Final = 3
"""Exit codes. After UNKNOWN the command may have been carried out or not."""


def rejection_from(error: Exception) -> Rejection | None:
    """Return what an error means for the operator, with its text; None for an unexpected error."""
    if isinstance(error, ServerRefusal):
        return error.rejection
    # Imported here: it knows every error of the runtime, and importing that takes 0.3 s of CPU.
    from assent import refusals

    return refusals.rejection_from(error, reveals_errors=True)


def exit_code(rejection: Rejection) -> int:
    """Return the exit code of a command that ends with this rejection."""
    return UNKNOWN if rejection.code == "OUTCOME_UNKNOWN" else FAILED


def exit_with(error: Exception, *, json: bool = False, names: Mapping[str, str] | None = None) -> NoReturn:
    """Print why a command failed and exit with its code; raise an unexpected error again."""
    if isinstance(error, ServerRefusal) and error.body is not None and json:
        print_json({name: value for name, value in error.body.items() if name != "instance"}, stderr=True)
        raise typer.Exit(exit_code(error.rejection)) from None
    rejection = rejection_from(error)
    if rejection is None:
        raise error
    rejection = _renamed(rejection, names or {})
    print_rejection(rejection, json=json)
    raise typer.Exit(exit_code(rejection)) from None


def _renamed(rejection: Rejection, names: Mapping[str, str]) -> Rejection:
    """Return a rejection with the first name of each path translated."""

    def renamed(path: Path) -> Path:
        return (names.get(str(path[0]), path[0]), *path[1:]) if path else path

    problems = tuple(replace(problem, path=renamed(problem.path)) for problem in rejection.problems)
    return replace(rejection, path=renamed(rejection.path), problems=problems)


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


def text_of_problem(problem: Mapping[str, Any]) -> Text:
    """Return a problem that HTTP replies with as text."""
    return as_text(
        ServerRefusal(problem["code"], problem["detail"], hint=problem.get("hint"), body=problem).rejection
    )


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
