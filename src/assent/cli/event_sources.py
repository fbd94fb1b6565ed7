"""`assent event-sources`: who must sign events and results, by the prefix of their keys."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, read_secret
from assent.cli.output import console, print_body, print_change, print_items
from assent.cli.remote import delete as delete_at
from assent.cli.remote import get, given, post
from assent.cli.session import OrgOption, run_as_operator

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.requests import SourceBody, SourceWithSecret
    from assent.cli.remote import ServerCall
    from assent.runtime.event_sources import EventSource
    from assent.runtime.runtime import OrgRuntime

app = typer.Typer(
    no_args_is_help=True, help="Sources of signed events: list, create and delete them, rotate their secrets."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The source.")]
SecretOption = Annotated[
    bool,
    typer.Option("--secret", help="Read the sender's own secret from standard input; a new one without it."),
]


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = 50, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the sources by name; their secrets are never shown."""

    async def work(commands: "OrgRuntime") -> str:
        from assent.bodies.body import text_of_page
        from assent.bodies.requests import SourceBody

        return text_of_page(await commands.event_sources.list(cursor=cursor, limit=limit), SourceBody.of)

    page = run_as_operator(None, org, get("event-sources", cursor=cursor, limit=limit), work, json=json)
    print_items(page, json=json, show=_table, none="There is no source: no event has to be signed.")


@app.command()
def create(
    name: NameArgument,
    key_prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Events whose keys begin so must be signed.")
    ],
    org: OrgOption,
    secret: SecretOption = False,
    json: JsonOption = False,
) -> None:
    """Require a signature for events by the prefix of their keys. The secret is shown this once."""
    known = read_secret("Secret").strip() if secret else None

    async def work(commands: "OrgRuntime") -> "SourceWithSecret":
        return _with_secret(*await commands.event_sources.create(name, key_prefix, known))

    body = given(name=name, key_prefix=key_prefix, secret=known)
    _print_secret(run_as_operator(None, org, post("event-sources", body=body), work, json=json), json)


@app.command()
def rotate(
    name: NameArgument, org: OrgOption, secret: SecretOption = False, json: JsonOption = False
) -> None:
    """Set a new secret, shown this once; the previous one holds beside it until it is retired."""
    known = read_secret("Secret").strip() if secret else None

    async def work(commands: "OrgRuntime") -> "SourceWithSecret":
        return _with_secret(*await commands.event_sources.rotate(name, known))

    route = post("event-sources", name, "rotate", body=given(secret=known))
    _print_secret(run_as_operator(None, org, route, work, json=json), json)


@app.command()
def retire(name: NameArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Retire the previous secret, when the sender uses the new one."""

    async def work(commands: "OrgRuntime") -> "SourceBody":
        from assent.bodies.requests import SourceBody

        return SourceBody.of(await commands.event_sources.retire(name))

    _print(org, post("event-sources", name, "retire"), work, f"retired the previous secret of {name}", json)


@app.command()
def delete(name: NameArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Delete a source: events under its keys are accepted without a signature again."""

    async def work(commands: "OrgRuntime") -> "SourceBody":
        from assent.bodies.requests import SourceBody

        return SourceBody.of(await commands.event_sources.delete(name))

    _print(org, delete_at("event-sources", name), work, f"deleted {name}", json)


def _print(org: str, route: "ServerCall", work: Any, done: str, json: bool) -> None:
    source = run_as_operator(None, org, route, work, json=json)
    print_change(source, done, json=json)


def _with_secret(secret: str, source: "EventSource") -> "SourceWithSecret":
    from assent.bodies.requests import SourceBody, SourceWithSecret

    return SourceWithSecret(**SourceBody.of(source).model_dump(), secret=secret)


def _print_secret(made: Any, json: bool) -> None:
    if json:
        print_body(made)
        return
    typer.echo(made.secret)
    console(stderr=True).print("Keep it safe: it is shown only now.", style="yellow")


def _table(sources: Sequence[Any]) -> "Table":
    from assent.cli.output import moment, table

    rows = (
        [
            one.name,
            one.key_prefix,
            one.created_by,
            moment(one.created_at),
            moment(one.rotated_at),
            "two secrets" if one.two_secrets else "",
        ]
        for one in sources
    )
    return table(("source", "keys that begin with", "by", "created", "rotated", ""), rows)
