"""Why a command did nothing, as text for a person or as JSON for a program."""

import asyncpg
from rich.text import Text

from assent.cli.output import console, print_json, safe
from assent.model.mutation import Refused, Rejection
from assent.model.problems import Invalid, format_path
from assent.runtime.errors import ReceiptTaken, StepFailed
from assent.store.errors import StoreError
from assent.store.retry import LOST_AGAINST_OTHERS

_BUSY_STATES = LOST_AGAINST_OTHERS | {"55P03", "57014"}
"""Lost against others too often, or waited too long: nothing was written, and later it may well work."""


def rejection_from(error: Exception) -> Rejection | None:
    """Return the rejection that an error means, or None if the error is unexpected."""
    if isinstance(error, Refused):
        return error.rejection
    if isinstance(error, Invalid):
        return Rejection.of(error.problems)
    if isinstance(error, StepFailed):
        why = f"{type(error.error).__name__}: {error.error}"
        return Rejection("STEP_FAILED", f"the step `{error.node_id}` raised {why}; nothing was changed")
    if isinstance(error, ReceiptTaken):
        hint = f"run `assent rebuild {error.instance_id}`"
        return Rejection("PROJECTION_BEHIND", str(error), ("instance_id",), hint=hint)
    return _of_database(error)


def _of_database(error: Exception) -> Rejection | None:
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate in _BUSY_STATES:
        message = "others are at work on the same thing; nothing was changed"
        return Rejection("BUSY", message, hint="try again")
    if isinstance(error, asyncpg.DataError):
        return Rejection("BAD_VALUE", str(error))
    if isinstance(error, StoreError | ConnectionError | asyncpg.InterfaceError):
        return Rejection("UNAVAILABLE", str(error))
    return None


def print_rejection(rejection: Rejection, *, json: bool) -> None:
    """On standard error, so that standard output holds what was wished for or nothing."""
    if json:
        print_json(as_json(rejection), stderr=True)
    else:
        console(stderr=True).print(as_text(rejection))


def as_json(rejection: Rejection) -> dict[str, object]:
    found: dict[str, object] = {
        "code": rejection.code,
        "message": rejection.message,
        "path": list(rejection.path),
        "problems": [problem.to_json() for problem in rejection.problems],
    }
    return found | ({"hint": rejection.hint} if rejection.hint else {})


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
