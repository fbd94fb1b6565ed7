"""`assent dead-letters`: list events, effects, tasks and results that are dead, and retry them."""

from collections import Counter
from collections.abc import Sequence
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, LimitOption, named
from assent.cli.remote import Server, ServerRefusal, get, post, seen
from assent.cli.session import ActorOptions, ActorSession, act, by_member

if TYPE_CHECKING:
    from rich.table import Table


app = typer.Typer(
    no_args_is_help=True, help="Dead letters: events, effects, tasks and results that used up their attempts."
)

LettersArgument = Annotated[
    list[UUID],
    typer.Argument(metavar="ID…", help="Dead letters, by their whole ids."),
]


@app.command("list")
@by_member
def list_letters(who: ActorOptions, limit: LimitOption = 100, cursor: CursorOption = None) -> None:
    """List dead events, effects, tasks and results together, newest first. Takes the capability `workflows:retry`."""
    from assent.cli.output import print_items

    async def work(session: ActorSession) -> str:
        from assent.bodies.body import page_text
        from assent.bodies.operations import LetterBody
        from assent.cli.letters import dead_letters

        found = await dead_letters(session, cursor, limit + 1)
        return page_text(
            found, limit, LetterBody.of, lambda letter: (letter.created_at.isoformat(), str(letter.id))
        )

    route = get("operations", "dead-letters", cursor=cursor, limit=limit)
    page = act(who, route, work)
    print_items(page, json=who.json, show=_table, none="There are no dead letters.")


@app.command("retry")
@by_member
def retry(who: ActorOptions, ids: LettersArgument) -> None:
    """Retry dead letters. Takes the capability `workflows:retry`.

    For one that a step awaited, run `assent instances retry`: that step has failed.
    """

    async def work(session: ActorSession) -> str:
        from assent.cli.letters import retry_each

        return (await retry_each(session, ids)).to_json()

    def ask(server: Server) -> Any:
        return _each(server, ids, "retry", None)

    _print(act(who, ask, work), json=who.json)


@app.command("retry-all")
@by_member
def retry_all(who: ActorOptions) -> None:
    """Retry every dead letter of the org. Takes the capability `workflows:retry`.

    Effects and tasks that a step awaited stay dead: their steps have failed, and are retried with their instance.
    """

    async def work(session: ActorSession) -> str:
        from assent.cli.letters import retry_everything

        return (await retry_everything(session, shown=not who.json)).to_json()

    def ask(server: Server) -> Any:
        letters = server.pages(get("operations", "dead-letters"))
        return _each(server, [letter.id for letter in letters], "retry", None, gone_is_done=True)

    _print(act(who, ask, work), json=who.json)


@app.command("discard")
@by_member
def discard(
    who: ActorOptions,
    ids: LettersArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why nothing is left to do.", callback=named)],
) -> None:
    """Take dead letters off the list for good; the audit log keeps the reason. Takes `workflows:repair`."""

    async def work(session: ActorSession) -> str:
        from assent.cli.letters import discard_each

        return (await discard_each(session, ids, reason)).to_json()

    def ask(server: Server) -> Any:
        return _each(server, ids, "discard", {"reason": reason})

    _print(act(who, ask, work), json=who.json, did="discarded")


def _each(server: Server, ids: Sequence[Any], command: str, body: Any, *, gone_is_done: bool = False) -> Any:
    """Ask for each dead letter, and note which were refused, so that the others are done too.

    Events of one instance are retried together: the others are gone when their turn comes. `gone_is_done` accepts that.
    """
    from assent.cli.refusals import as_json

    counts: Counter[str] = Counter()
    refused = []
    for letter_id in ids:
        try:
            done = server.ask(post("operations", "dead-letters", letter_id, command, body=body))
            counts[done.kind] += 1
        except ServerRefusal as refusal:
            if not (gone_is_done and refusal.code == "NOT_FOUND"):
                refused.append({"id": str(letter_id), **as_json(refusal.rejection)})
    kinds = ("event", "effect", "result", "task")
    return seen(dumps({**{f"{kind}s": counts[kind] for kind in kinds}, "refused": refused}))


def _print(done: Any, *, json: bool, did: str = "retried") -> None:
    """Print what was done; exit with 1 if something stays dead, with 3 if that is unknown of something."""
    from assent.cli.output import console, counted, print_body
    from assent.cli.refusals import FAILED, UNKNOWN, text_of_problem

    if json:
        print_body(done)
    else:
        out = console()
        kinds = ("event", "effect", "result", "task")
        said = ", ".join(counted(done[f"{kind}s"], kind) for kind in kinds if done[f"{kind}s"])
        out.print(f"✓ {did}: {said}" if said else f"Nothing was {did}.")
        for problem in done.refused:
            console(stderr=True).print(f"{problem.id}:", text_of_problem(problem))
    codes = (UNKNOWN if problem.code == "OUTCOME_UNKNOWN" else FAILED for problem in done.refused)
    raise typer.Exit(max(codes, default=0))


def _table(letters: "Sequence[Any]") -> "Table":
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
