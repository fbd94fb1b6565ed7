"""`assent secrets`: credentials for receivers, by the names that definitions call them.

`assent signing-secrets`: what the org's webhooks are signed with.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, read_secret
from assent.cli.output import console, print_body, print_change, print_items
from assent.cli.remote import delete as delete_at
from assent.cli.remote import get, post, put
from assent.cli.session import OrgOption, operator, run_in_org

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.administration import MadeSigningSecret, RetiredSecrets
    from assent.bodies.people import SecretBody
    from assent.store.database import Connection

# The application's role has no right to secrets: each command works as the owner.

app = typer.Typer(no_args_is_help=True, help="Secrets that definitions name: list, set and delete them.")

signing = typer.Typer(no_args_is_help=True, help="Secrets that sign webhooks: list, rotate and retire them.")

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
    value = read_secret("Value", confirm=True)

    async def work(connection: "Connection", now: datetime) -> "SecretBody":
        from assent.bodies.people import SecretBody
        from assent.effects.named_secrets import put_secret

        return SecretBody.of(await put_secret(connection, org, name, value, host, operator().actor.id, now))

    route = put("secrets", name, body={"value": value, "hosts": host})
    kept = run_in_org(org, route, work, json=json, as_owner=True)
    print_change(kept, f"kept {kept.name}, for {', '.join(kept.hosts)}", json=json)


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = 50, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the secrets of an org by name; values are never shown."""

    async def work(connection: "Connection", now: datetime) -> str:
        from assent.bodies.body import page_text
        from assent.bodies.people import SecretBody
        from assent.effects.named_secrets import list_secrets
        from assent.model.cursor import position_of, text_in

        found = await list_secrets(connection, org, position_of(cursor, text_in), limit + 1)
        return page_text(found, limit, SecretBody.of, lambda secret: secret.name)

    route = get("secrets", cursor=cursor, limit=limit)
    page = run_in_org(org, route, work, json=json, as_owner=True)
    print_items(page, json=json, show=_table, none="There is no secret.")


@app.command()
def delete(name: NameArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Forget a secret: what would send it fails from now on."""

    async def work(connection: "Connection", now: datetime) -> "SecretBody":
        from assent.bodies.people import SecretBody
        from assent.effects.named_secrets import delete_secret

        return SecretBody.of(await delete_secret(connection, org, name))

    deleted = run_in_org(org, delete_at("secrets", name), work, json=json, as_owner=True)
    print_change(deleted, f"deleted {name}", json=json)


@signing.command("list")
def list_signing(
    org: OrgOption, limit: LimitOption = 50, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List when signing secrets were made and retired, newest first; they are never shown."""

    async def work(connection: "Connection", now: datetime) -> str:
        from assent.bodies.administration import SigningSecretBody
        from assent.bodies.body import page_text
        from assent.effects.signing_secrets import list_signing_secrets
        from assent.model.cursor import id_in, position_of

        found = await list_signing_secrets(connection, org, position_of(cursor, id_in), limit + 1)
        return page_text(found, limit, SigningSecretBody.of, lambda secret: str(secret.id))

    route = get("signing-secrets", cursor=cursor, limit=limit)
    page = run_in_org(org, route, work, json=json, as_owner=True)
    none = "There is no signing secret: webhooks are not signed."
    print_items(page, json=json, show=_signing_table, none=none)


@signing.command()
def rotate(org: OrgOption, json: JsonOption = False) -> None:
    """Make a new signing secret, shown this once. It signs beside the previous one until that is retired."""

    async def work(connection: "Connection", now: datetime) -> "MadeSigningSecret":
        from assent.bodies.administration import MadeSigningSecret
        from assent.effects.signing_secrets import rotate_secret

        return MadeSigningSecret(secret=await rotate_secret(connection, org, now))

    made = run_in_org(org, post("signing-secrets", "rotate"), work, json=json, as_owner=True)
    if json:
        print_body(made)
        return
    typer.echo(made.secret)
    console(stderr=True).print("Keep it safe: it is shown only now.", style="yellow")


@signing.command()
def retire(org: OrgOption, json: JsonOption = False) -> None:
    """Let only the newest secret sign from now on, when every receiver knows it."""

    async def work(connection: "Connection", now: datetime) -> "RetiredSecrets":
        from assent.bodies.administration import RetiredSecrets
        from assent.effects.signing_secrets import retire_old_secrets

        return RetiredSecrets(retired=await retire_old_secrets(connection, org, now))

    done = run_in_org(org, post("signing-secrets", "retire"), work, json=json, as_owner=True)
    print_change(done, f"retired {done.retired}", json=json)


def _signing_table(secrets: "Sequence[Any]") -> "Table":
    from assent.cli.output import moment, table

    rows = ([str(one.id), moment(one.created_at), moment(one.retired_at)] for one in secrets)
    return table(("id", "made", "retired"), rows)


def _table(secrets: "Sequence[Any]") -> "Table":
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
