"""`assent secrets`: credentials for receivers, by the names that definitions call them."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from assent.cli.options import JsonOption
from assent.cli.output import console, print_json
from assent.cli.session import OrgOption, migrated_database, operator

if TYPE_CHECKING:
    from assent.effects.named_secrets import SecretRecord
    from assent.store.database import Connection

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Secrets that definitions name: kept, listed, deleted.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As in `{secret.NAME}`.")]
HostOption = Annotated[
    list[str],
    typer.Option(
        "--host",
        help="Where it may be sent, such as erp.example or *.erp.example; may be given several times.",
    ),
]


@app.command("set")
def set_secret(name: NameArgument, org: OrgOption, host: HostOption, json: JsonOption = False) -> None:
    """Keep a secret. The value comes from standard input or a prompt, never from the command line."""
    value = _value()

    async def work(connection: "Connection", now: datetime) -> "SecretRecord":
        from assent.effects.named_secrets import put_secret

        return await put_secret(connection, org, name, value, host, operator().actor.id, now)

    kept = _as_owner(work)
    if json:
        print_json(kept.to_json())
    else:
        console().print(f"✓ kept {kept.name}, for {', '.join(kept.hosts)}")


@app.command("list")
def list_(org: OrgOption, json: JsonOption = False) -> None:
    """List the secrets of an org by name; values are never shown."""

    async def work(connection: "Connection", now: datetime) -> "list[SecretRecord]":
        from assent.effects.named_secrets import list_secrets

        return await list_secrets(connection, org)

    found = _as_owner(work)
    if json:
        print_json([secret.to_json() for secret in found])
    else:
        _print_table(found)


@app.command()
def delete(name: NameArgument, org: OrgOption) -> None:
    """Forget a secret: what would send it fails from now on."""

    async def work(connection: "Connection", now: datetime) -> None:
        from assent.effects.named_secrets import delete_secret

        await delete_secret(connection, org, name)

    _as_owner(work)
    console().print(f"✓ deleted {name}")


def _value() -> str:
    """Not an argument: those are seen by everybody on the machine, and kept by shells."""
    if sys.stdin.isatty():
        text: str = typer.prompt("Value", hide_input=True, confirmation_prompt=True)
        return text
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def _as_owner(work: "Callable[[Connection, datetime], Awaitable[T]]") -> T:
    """Do it as the owner, for the application's role has no right to secrets; exit if it fails."""
    from assent.cli.refusals import exit_with

    async def run() -> T:
        async with migrated_database() as database, database.transaction(None, by=operator()) as connection:
            return await work(connection, database.clock.now())

    try:
        return asyncio.run(run())
    except Exception as error:
        exit_with(error)


def _print_table(secrets: "list[SecretRecord]") -> None:
    from rich.table import Table

    table = Table("name", "hosts", "by", "changed", box=None)
    for secret in secrets:
        changed = secret.changed_at.isoformat(timespec="minutes")
        table.add_row(secret.name, " ".join(secret.hosts), secret.created_by, changed)
    console().print(table)
