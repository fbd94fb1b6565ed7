"""Arguments and options that several commands share, and what they mean: applications, data, ids."""

import importlib
import json
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn
from uuid import UUID

import typer

if TYPE_CHECKING:
    from datetime import timedelta

    from assent.app import App
    from assent.model.cursor import ItemPage
    from assent.store.database import Connection

    Find = Callable[[Connection, str, UUID, UUID, int], Awaitable[Sequence[UUID]]]


PathArgument = Annotated[Path, typer.Argument(help="A file, a folder, or - for standard input.")]
OptionalPathsArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Files, folders, or - for standard input; without them, what the application adds.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs: the same bodies as the HTTP API.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many are shown.")]
CursorOption = Annotated[
    str | None, typer.Option("--cursor", help="Where the page before ended: the value of its `next`.")
]


def named(text: str | None) -> str | None:
    """Return a name that was given; raise `BadParameter` for a blank one, such as an empty variable of a script."""
    from assent.model.names import is_blank

    if text is not None and is_blank(text):
        raise typer.BadParameter(f"expected a text with something to see in it, found {text!r}")
    return text


OptionalAppOption = Annotated[
    str | None,
    typer.Option("--app", envvar="ASSENT_APP", help="The application, as module:name of its App object."),
]


def load_app(place: str) -> "App":
    """Return the App at `module:name`; a usage error says what was found instead. Modules are also looked for here."""
    from assent.app import App
    from assent.cli.refusals import exit_with
    from assent.model.problems import Invalid

    module_name, colon, name = place.partition(":")
    if not (module_name and colon and name):
        raise typer.BadParameter(f"expected module:name, such as shop.main:app, found {place!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise typer.BadParameter(
            f"no module {error.name!r}: run this where {module_name!r} can be imported"
        ) from error
    except Invalid as error:
        if any(problem.source is not None for problem in error.problems):
            from assent.cli.sources import exit_with_problems

            exit_with_problems(error.problems)
        exit_with(error)
    found = getattr(module, name, None)
    if not isinstance(found, App):
        raise typer.BadParameter(f"expected an App under {place!r}, found {type(found).__name__}")
    return found


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
    """Return what the options say together; a pair wins over the file."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise typer.BadParameter(f"expected KEY=VALUE, found {pair!r}", param_hint="--data")
        if key in found:
            raise typer.BadParameter(f"{key!r} is given twice", param_hint="--data")
        found[key] = _value(value)
    return (_object_in(file) if file is not None else {}) | found


_ANY_VERSION: Final = "*"
_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")


def given_version(text: str | None) -> int | None:
    """Return the version that an option names; None for any. Raise `BadParameter` for what is no version."""
    if text is None or text == _ANY_VERSION:
        return None
    if _VERSION.fullmatch(text) is None:
        raise typer.BadParameter(f"expected a version or *, found {text!r}", param_hint="--version")
    return int(text)


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


def read_secret(prompt: str, *, confirm: bool = False) -> str:
    """Return a secret from a prompt or standard input: other users see arguments, and shells keep them."""
    if sys.stdin.isatty():
        text: str = typer.prompt(prompt, hide_input=True, confirmation_prompt=confirm)
        return text
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def yaml_object(file: Path) -> dict[str, Any]:
    """Return the one object in a file of YAML, JSON or standard input; raise `BadParameter` for anything else."""
    from assent.compiler.source import read_sources

    try:
        text = sys.stdin.read().encode() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"expected a file: {error}") from error
    sources = read_sources(text, str(file))
    if problems := [problem for source in sources for problem in source.problems]:
        raise typer.BadParameter(f"expected YAML in {file}: {problems[0].message}")
    if len(sources) != 1 or not isinstance(sources[0].data, dict):
        raise typer.BadParameter(f"expected one object in {file}")
    return dict(sources[0].data)


def given_length(text: str, option: str) -> "timedelta":
    """Return a length of time such as 15m; raise `BadParameter` for what is none."""
    from assent.model.problems import Problem
    from assent.model.timing import parse_duration

    found = parse_duration(text)
    if isinstance(found, Problem):
        raise typer.BadParameter(found.message, param_hint=option)
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DIGITS: Final = re.compile(r"[0-9a-f]{4,32}")
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class GivenId:
    """What was typed, and the first and the last id that begin so."""

    text: str
    first: UUID
    last: UUID


def given_id(text: str) -> GivenId:
    digits = text.strip().lower().replace("-", "")
    if not _DIGITS.fullmatch(digits):
        raise typer.BadParameter(f"expected an id or at least 4 digits of its beginning, found {text!r}")
    return GivenId(text, UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f")))


async def find_one(
    connection: "Connection", org_id: str, noun: str, given: GivenId, find: "Find"
) -> UUID | None:
    """Return the one that is meant, if there is one; refuse where there are several."""
    from assent.model.mutation import Refused, Rejection

    found = await find(connection, org_id, given.first, given.last, _SHOWN_MAX)
    if len(found) > 1:
        message = f"several begin with {given.text}: {', '.join(map(str, found))}"
        raise Refused(Rejection("AMBIGUOUS_ID", message, (noun,), hint="type more of the id"))
    return found[0] if found else None


async def pages(read: "Callable[[str | None], Awaitable[ItemPage[Any]]]") -> list[Any]:
    """Return the items of all pages of a list that is read with a cursor."""
    items: list[Any] = []
    cursor: str | None = None
    while True:
        page = await read(cursor)
        items += page.items
        cursor = page.next
        if cursor is None:
            return items
