"""`assent dead-letters`: list events, effects, tasks and results that are dead, and retry them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import JsonOption
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
    from rich.table import Table

    from assent.cli.letters import Letter, Retried


app = typer.Typer(
    no_args_is_help=True, help="Dead letters: events, effects, tasks and results that used up their attempts."
)

LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many of each are shown.")]
LettersArgument = Annotated[
    list[UUID],
    typer.Argument(metavar="ID…", help="Dead letters, by their whole ids."),
]


@app.command("list")
def list_letters(
    app: AppOption, org: OrgOption, user: UserOption, limit: LimitOption = 100, json: JsonOption = False
) -> None:
    """List dead events, effects, tasks and results together, newest first. Takes the capability `workflows:retry`."""
    from assent.cli.letters import dead_letters
    from assent.cli.output import console, print_json, print_table

    found = act(ActorOptions(app, org, user, json), lambda session: dead_letters(session, limit))
    if json:
        print_json([asdict(letter) for letter in found])
    elif found:
        print_table(_table(found))
    else:
        console().print("There are no dead letters.", style="dim")


@app.command("retry")
def retry(
    ids: LettersArgument, app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False
) -> None:
    """Retry dead letters. Takes the capability `workflows:retry`.

    For one that a step awaited, run `assent instances retry`: that step has failed.
    """
    from assent.cli.letters import retry_each

    _print(act(ActorOptions(app, org, user, json), lambda session: retry_each(session, ids)), json=json)


@app.command("retry-all")
def retry_all(app: AppOption, org: OrgOption, user: UserOption, json: JsonOption = False) -> None:
    """Retry every dead letter of the org. Takes the capability `workflows:retry`.

    Effects and tasks that a step awaited stay dead: their steps have failed, and are retried with their instance.
    """
    from assent.cli.letters import retry_everything

    async def work(session: ActorSession) -> "Retried":
        return await retry_everything(session, shown=not json)

    _print(act(ActorOptions(app, org, user, json), work), json=json)


def _print(done: "Retried", *, json: bool) -> None:
    """Print what was retried; exit with 1 if something stays dead, with 3 if that is unknown of something."""
    from assent.cli.output import console, counted, print_json
    from assent.cli.refusals import as_text, exit_code

    if json:
        print_json(done.to_json())
    else:
        out = console()
        said = ", ".join(counted(number, kind) for kind, number in done.counts.items() if number)
        out.print(f"✓ retried: {said}" if said else "Nothing was retried.")
        for text, rejection in done.refused:
            console(stderr=True).print(f"{text}:", as_text(rejection))
    raise typer.Exit(max((exit_code(rejection) for _, rejection in done.refused), default=0))


def _table(letters: "Sequence[Letter]") -> "Table":
    from assent.cli.output import moment, one_line, table

    rows: list[list[Any]] = [
        [
            str(letter.id),
            letter.kind,
            letter.what,
            moment(letter.created_at),
            str(letter.attempts),
            str(letter.instance_id or ""),
            "retry the instance" if letter.awaited else "",
            one_line(letter.error),
        ]
        for letter in letters
    ]
    headings = ("id", "kind", "what", "since", "attempts", "instance", "", "error")
    return table(headings, rows, right=("attempts",))
