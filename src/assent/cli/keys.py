"""`assent keys`: API keys of members — made and shown once, listed, revoked."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, given_length
from assent.cli.output import console, print_body, print_change, print_items
from assent.cli.remote import get, given, post
from assent.cli.session import OrgOption, run_in_org

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.people import KeyBody, MadeKey
    from assent.store.database import Connection

app = typer.Typer(no_args_is_help=True, help="API keys: list, create and revoke them.")

UserOption = Annotated[str, typer.Option("--user", help="The member whose rights the key has.")]
NameOption = Annotated[str, typer.Option("--name", help="What it is for, such as `nightly import`.")]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", help="What it may be used for, such as entities:read; may be given several times."
    ),
]
ExpiresOption = Annotated[
    str | None,
    typer.Option("--expires-in", metavar="90d", help="How long it holds; without it, until revoked."),
]

PartitionOption = Annotated[
    str | None,
    typer.Option("--partition", help="The one part of the org that it sees; without it, all of it."),
]


@app.command()
def create(  # noqa: PLR0913, PLR0917
    org: OrgOption,
    user: UserOption,
    name: NameOption,
    scope: ScopeOption = None,
    expires_in: ExpiresOption = None,
    partition: PartitionOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key for a member. It is shown now and never again: only its hash is kept."""
    length = given_length(expires_in, "--expires-in") if expires_in else None

    async def work(connection: "Connection", now: datetime) -> "MadeKey":
        from assent.bodies.people import KeyBody, MadeKey
        from assent.http.settings import HttpSettings
        from assent.people.api_keys import create_api_key

        terms: dict[str, Any] = {
            "scopes": tuple(scope) if scope else None,
            "expires_at": now + length if length else None,
            "partition_id": partition,
            "keys_max": HttpSettings().keys_of_member_max,
        }
        text, made = await create_api_key(connection, org, user, name, now, **terms)
        return MadeKey(**KeyBody.of(made).model_dump(), key=text)

    expires_at = datetime.now(UTC) + length if length else None
    body = given(user=user, name=name, scopes=scope, expires_at=expires_at, partition_id=partition)
    made = run_in_org(org, post("keys", body=body), work, json=json)
    if json:
        print_body(made)
        return
    typer.echo(made.key)
    console(stderr=True).print("Keep it safe: it is shown only now.", style="yellow")


@app.command("list")
def list_keys(
    org: OrgOption, limit: LimitOption = 50, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the keys of an org, newest first."""

    async def work(connection: "Connection", now: datetime) -> str:
        from assent.bodies.body import page_text
        from assent.bodies.people import KeyBody
        from assent.model.cursor import id_in, position_of
        from assent.people.api_keys import page_of_api_keys

        found = await page_of_api_keys(connection, org, None, position_of(cursor, id_in), limit + 1)
        return page_text(found, limit, KeyBody.of, lambda key: str(key.id))

    route = get("keys", all=True, cursor=cursor, limit=limit)
    page = run_in_org(org, route, work, json=json)
    print_items(page, json=json, show=_table, none="There is no key.")


@app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(metavar="ID", help="The key's id, as listed.")],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Revoke a key, and those that were made with it: they no longer sign in."""

    async def work(connection: "Connection", now: datetime) -> "KeyBody":
        from assent.bodies.people import KeyBody
        from assent.people.api_keys import revoke_api_key

        return KeyBody.of(await revoke_api_key(connection, org, key_id, now))

    revoked = run_in_org(org, post("keys", key_id, "revoke"), work, json=json)
    print_change(revoked, f"revoked {key_id}", json=json)


def _table(keys: "Sequence[Any]") -> "Table":
    from assent.cli.output import table

    names = ("id", "key", "member", "name", "scopes", "partition", "made by", "expires", "revoked")
    rows = []
    for key in keys:
        ends = [
            moment.isoformat(timespec="minutes") if moment else ""
            for moment in (key.expires_at, key.revoked_at)
        ]
        bounds = (" ".join(key.scopes), key.partition_id or "", key.created_by or "")
        rows.append([str(key.id), f"{key.prefix}…", key.user_id, key.name, *bounds, *ends])
    return table(names, rows)
