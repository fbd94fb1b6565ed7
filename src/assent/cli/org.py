"""`assent org`: an org and its settings; created, shown, changed."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import (
    CursorOption,
    DataOption,
    JsonDataOption,
    JsonOption,
    LimitOption,
    OptionalAppOption,
    given_data,
    load_app,
)
from assent.cli.output import console, print_body, print_change, print_table
from assent.cli.remote import get, patch, post
from assent.cli.session import OrgOption, run_as_operator, run_in_org

if TYPE_CHECKING:
    from assent.bodies.administration import AlertBody, OrgBody
    from assent.runtime.runtime import OrgRuntime
    from assent.store.database import Connection

app = typer.Typer(no_args_is_help=True, help="The org: create it, show and change its settings.")

OrgArgument = Annotated[str, typer.Argument(metavar="ORG", help="The id of the new org, such as acme.")]
SettingsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME=VALUE…", help="A setting, as JSON where it is JSON (500, true, [1]), else as text."
    ),
]


@app.command()
def create(  # noqa: PLR0913, PLR0917
    org: OrgArgument,
    name: Annotated[str | None, typer.Option("--name", help="What people call it.")] = None,
    data: DataOption = None,
    json_data: JsonDataOption = None,
    app: OptionalAppOption = None,
    json: JsonOption = False,
) -> None:
    """Create an org, with settings or without."""
    settings = given_data(data, json_data)

    declared = load_app(app).registry.settings if app is not None else {}

    async def work(connection: "Connection", now: datetime) -> "OrgBody":
        from assent.bodies.administration import OrgBody
        from assent.people.orgs import create_org

        return OrgBody.of(await create_org(connection, org, name, settings, declared=declared))

    made = run_in_org(org, None, work, json=json, as_owner=True)
    print_change(made, f"created {made.org_id}", json=json)


@app.command()
def show(org: OrgOption, json: JsonOption = False) -> None:
    """Show the org and its settings, which expressions read as `org.NAME`."""

    async def work(commands: "OrgRuntime") -> "OrgBody":
        from assent.bodies.administration import OrgBody

        return OrgBody.of(await commands.settings.read())

    _print(run_as_operator(None, org, get("org"), work, json=json), json)


@app.command()
def partitions(
    org: OrgOption, limit: LimitOption = 50, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the partitions in which something of the org is, by name."""
    from assent.cli.output import print_items, table

    async def work(commands: "OrgRuntime") -> str:
        from assent.bodies.administration import PartitionBody
        from assent.bodies.body import text_of_page

        page = await commands.partitions.list(cursor=cursor, limit=limit)
        return text_of_page(page, PartitionBody.of_name)

    route = get("org", "partitions", cursor=cursor, limit=limit)
    page = run_as_operator(None, org, route, work, json=json)
    print_items(
        page,
        json=json,
        show=lambda items: table(("partition",), [[one.partition_id] for one in items]),
        none="There is no partition.",
    )


@app.command("set")
def set_(
    org: OrgOption,
    settings: SettingsArgument = None,
    json_data: JsonDataOption = None,
    app: OptionalAppOption = None,
    json: JsonOption = False,
) -> None:
    """Set some settings; those that are not named stay. With --app they are checked by their declared types."""
    changes = given_data(settings, json_data)
    if not changes:
        raise typer.BadParameter("expected NAME=VALUE, or --json-data")
    _change(org, changes, app, json)


@app.command()
def unset(
    org: OrgOption,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="The settings to remove.")],
    json: JsonOption = False,
) -> None:
    """Remove settings."""
    _change(org, dict.fromkeys(names), None, json)


@app.command("test-alert")
def post_test_alert(org: OrgOption, json: JsonOption = False) -> None:
    """Post a test to the setting `alert_url`, signed as alerts are; a worker sends it."""

    async def work(commands: "OrgRuntime") -> "AlertBody":
        from assent.bodies.administration import AlertBody

        return AlertBody(id=await commands.settings.test_alert())

    alert = run_as_operator(None, org, post("org", "test-alert"), work, json=json)
    print_change(alert, f"enqueued alert {alert.id}", json=json)


def _change(org: str, changes: dict[str, Any], app: str | None, json: bool) -> None:
    async def work(commands: "OrgRuntime") -> "OrgBody":
        from assent.bodies.administration import OrgBody

        return OrgBody.of(await commands.settings.change(changes))

    _print(run_as_operator(app, org, patch("org", "settings", body=changes), work, json=json), json)


def _print(org: Any, json: bool) -> None:
    from assent.cli.output import table

    if json:
        print_body(org)
        return
    console().print(f"{org.org_id}: {org.name}" if org.name != org.org_id else org.org_id, style="bold")
    if org.settings:
        print_table(
            table(("setting", "value"), [[name, _text(org.settings[name])] for name in sorted(org.settings)])
        )
    else:
        console().print("There is no setting.", style="dim")


def _text(value: Any) -> str:
    import orjson

    return value if isinstance(value, str) else orjson.dumps(value).decode()
