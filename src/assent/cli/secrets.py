"""`assent secrets`: credentials for receivers, by the names that definitions call them.

`assent signing-secrets`: what the org's webhooks are signed with.
"""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption
from assent.cli.output import console, print_body, print_list
from assent.cli.session import OrgOption, operator, run_in_org

if TYPE_CHECKING:
    from rich.table import Table

    from assent.effects.named_secrets import SecretRecord
    from assent.effects.signing_secrets import SigningSecret
    from assent.store.database import Connection

# The application's role has no right to secrets: each command works as the owner, in `run_in_org(None, …)`.
LISTED_MAX: Final = 1_000

app = typer.Typer(no_args_is_help=True, help="Secrets that definitions name: kept, listed, deleted.")

signing = typer.Typer(no_args_is_help=True, help="Secrets that sign webhooks: listed, rotated, retired.")

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
    from assent.bodies.people import SecretBody

    value = _value()

    async def work(connection: "Connection", now: datetime) -> "SecretRecord":
        from assent.effects.named_secrets import put_secret

        return await put_secret(connection, org, name, value, host, operator().actor.id, now)

    kept = run_in_org(None, work, json=json)
    if json:
        print_body(SecretBody.of(kept))
    else:
        console().print(f"✓ kept {kept.name}, for {', '.join(kept.hosts)}")


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = LISTED_MAX, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the secrets of an org by name; values are never shown."""
    from assent.bodies.people import SecretBody

    async def work(connection: "Connection", now: datetime) -> "list[SecretRecord]":
        from assent.effects.named_secrets import list_secrets
        from assent.model.cursor import position_of, text_in

        return await list_secrets(connection, org, position_of(cursor, text_in), limit + 1)

    print_list(
        *(run_in_org(None, work, json=json), limit, SecretBody.of, lambda secret: secret.name),
        json=json,
        show=_table,
        none="There is no secret.",
    )


@app.command()
def delete(name: NameArgument, org: OrgOption) -> None:
    """Forget a secret: what would send it fails from now on."""

    async def work(connection: "Connection", now: datetime) -> None:
        from assent.effects.named_secrets import delete_secret

        await delete_secret(connection, org, name)

    run_in_org(None, work)
    console().print(f"✓ deleted {name}")


@signing.command("list")
def list_signing(
    org: OrgOption, limit: LimitOption = LISTED_MAX, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List when signing secrets were made and retired, newest first; they are never shown."""
    from assent.bodies.administration import SigningSecretBody

    async def work(connection: "Connection", now: datetime) -> "list[SigningSecret]":
        from assent.effects.signing_secrets import list_signing_secrets
        from assent.model.cursor import id_in, position_of

        return await list_signing_secrets(connection, org, position_of(cursor, id_in), limit + 1)

    print_list(
        *(run_in_org(None, work, json=json), limit, SigningSecretBody.of, lambda secret: str(secret.id)),
        json=json,
        show=_signing_table,
        none="There is no signing secret: webhooks are not signed.",
    )


@signing.command()
def rotate(org: OrgOption, json: JsonOption = False) -> None:
    """Make a new signing secret, shown this once. It signs beside the previous one until that is retired."""
    from assent.bodies.administration import MadeSigningSecret

    async def work(connection: "Connection", now: datetime) -> str:
        from assent.effects.signing_secrets import rotate_secret

        return await rotate_secret(connection, org, now)

    secret = run_in_org(None, work, json=json)
    if json:
        print_body(MadeSigningSecret(secret=secret))
        return
    typer.echo(secret)
    console(stderr=True).print("Keep it safe: it is shown only now.", style="yellow")


@signing.command()
def retire(org: OrgOption, json: JsonOption = False) -> None:
    """Let only the newest secret sign from now on, when every receiver knows it."""
    from assent.bodies.administration import RetiredSecrets

    async def work(connection: "Connection", now: datetime) -> int:
        from assent.effects.signing_secrets import retire_old_secrets

        return await retire_old_secrets(connection, org, now)

    retired = run_in_org(None, work, json=json)
    if json:
        print_body(RetiredSecrets(retired=retired))
    else:
        console().print(f"✓ retired {retired}")


def _signing_table(secrets: "Sequence[SigningSecret]") -> "Table":
    from assent.cli.output import moment, table

    rows = ([str(one.id), moment(one.created_at), moment(one.retired_at)] for one in secrets)
    return table(("id", "made", "retired"), rows)


def _value() -> str:
    """Not an argument: those are seen by everybody on the machine, and kept by shells."""
    if sys.stdin.isatty():
        text: str = typer.prompt("Value", hide_input=True, confirmation_prompt=True)
        return text
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def _table(secrets: "Sequence[SecretRecord]") -> "Table":
    from assent.cli.output import table

    rows = (
        [
            secret.name,
            " ".join(secret.hosts),
            secret.created_by,
            secret.changed_at.isoformat(timespec="minutes"),
        ]
        for secret in secrets
    )
    return table(("name", "hosts", "by", "changed"), rows)
