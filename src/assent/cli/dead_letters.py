"""`assent dead-letters`: list events, effects, tasks and results that are dead, and retry them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, named
from assent.cli.session import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act

if TYPE_CHECKING:
    from rich.table import Table

    from assent.cli.letters import Retried
    from assent.operations.queues import DeadLetter


app = typer.Typer(
    no_args_is_help=True, help="Dead letters: events, effects, tasks and results that used up their attempts."
)

LettersArgument = Annotated[
    list[UUID],
    typer.Argument(metavar="ID…", help="Dead letters, by their whole ids."),
]


@app.command("list")
def list_letters(  # noqa: PLR0913, PLR0917
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """List dead events, effects, tasks and results together, newest first. Takes the capability `workflows:retry`."""
    from assent.bodies.operations import LetterBody
    from assent.cli.letters import dead_letters
    from assent.cli.output import print_list

    found = act(ActorOptions(app, org, user, json), lambda session: dead_letters(session, cursor, limit + 1))
    print_list(
        *(found, limit, LetterBody.of, lambda letter: (letter.created_at.isoformat(), str(letter.id))),
        json=json,
        show=_table,
        none="There are no dead letters.",
    )


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


@app.command("discard")
def discard(  # noqa: PLR0913, PLR0917
    ids: LettersArgument,
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    reason: Annotated[str, typer.Option("--reason", help="Why nothing is left to do.", callback=named)],
    json: JsonOption = False,
) -> None:
    """Take dead letters off the list for good; the audit log keeps the reason. Takes `workflows:repair`."""
    from assent.cli.letters import discard_each

    done = act(ActorOptions(app, org, user, json), lambda session: discard_each(session, ids, reason))
    _print(done, json=json, did="discarded")


def _print(done: "Retried", *, json: bool, did: str = "retried") -> None:
    """Print what was done; exit with 1 if something stays dead, with 3 if that is unknown of something."""
    from assent.cli.output import console, counted, print_json
    from assent.cli.refusals import as_text, exit_code

    if json:
        print_json(done.to_json())
    else:
        out = console()
        said = ", ".join(counted(number, kind) for kind, number in done.counts.items() if number)
        out.print(f"✓ {did}: {said}" if said else f"Nothing was {did}.")
        for text, rejection in done.refused:
            console(stderr=True).print(f"{text}:", as_text(rejection))
    raise typer.Exit(max((exit_code(rejection) for _, rejection in done.refused), default=0))


def _table(letters: "Sequence[DeadLetter]") -> "Table":
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
            "may have been sent" if letter.ambiguous else "",
            one_line(letter.error),
        ]
        for letter in letters
    ]
    headings = ("id", "kind", "what", "since", "attempts", "instance", "", "outcome", "error")
    return table(headings, rows, right=("attempts",))
