"""`assent mail-templates` and `assent preferences`: the words of our mails, and how a member is written to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, yaml_object
from assent.cli.output import console, print_body, print_change, print_items, print_table
from assent.cli.remote import delete as delete_route
from assent.cli.remote import get, patch, post, put
from assent.cli.session import ActorOptions, ActorSession, OrgOption, act, by_member, run_as_operator

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.administration import MailPreviewBody, MailTemplateBody, PreferencesBody
    from assent.runtime.runtime import OrgRuntime

LISTED_MAX: Final = 200

app = typer.Typer(
    no_args_is_help=True, help="The words of mails, by kind and language: list, show, save and preview them."
)
preferences = typer.Typer(no_args_is_help=True, help="How you are written to: show it, set it.")

KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="Such as asked, escalated or digest.")]
LanguageArgument = Annotated[str, typer.Argument(metavar="LANGUAGE", help="Such as en, de or de-CH.")]


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = LISTED_MAX, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the templates of every kind: ours, and those with parts of the org's own."""

    async def work(commands: "OrgRuntime") -> str:
        from assent.bodies.administration import MailTemplateBody
        from assent.bodies.body import page_text
        from assent.model.cursor import position_of, texts_in

        after = position_of(cursor, texts_in)
        found = await commands.mail_templates.list()
        rest = [one for one in found if after is None or one.position > after]
        return page_text(rest[: limit + 1], limit, MailTemplateBody.of, lambda one: one.position)

    route = get("mail-templates", cursor=cursor, limit=limit)
    page = run_as_operator(None, org, route, work, json=json)
    print_items(page, json=json, show=_table, none="There is no template.")


@app.command()
def show(kind: KindArgument, language: LanguageArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Show a template, and the variables that it may name."""

    async def work(commands: "OrgRuntime") -> "MailTemplateBody":
        from assent.bodies.administration import MailTemplateBody

        return MailTemplateBody.of(await commands.mail_templates.get(kind, language))

    found = run_as_operator(None, org, get("mail-templates", kind, language), work, json=json)
    if json:
        print_body(found)
        return
    out = console()
    for part in ("subject", "text", "html"):
        text = getattr(found, part)
        out.print(f"{part}{'' if part in found.own else ', ours'}:", style="bold")
        out.print(text if text is not None else "made from the text", markup=False, highlight=False)
    from assent.cli.output import table

    print_table(table(("variable", "is"), [[f"{{{name}}}", text] for name, text in found.variables.items()]))


@app.command()
def save(
    kind: KindArgument,
    language: LanguageArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="subject, text and html, or some of them, as YAML or JSON; - for stdin."
        ),
    ],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Save a template of the org; a part that is left out is ours."""
    parts = yaml_object(file)

    async def work(commands: "OrgRuntime") -> "MailTemplateBody":
        from assent.bodies.administration import MailTemplateBody

        return MailTemplateBody.of(await commands.mail_templates.save(kind, language, parts))

    route = put("mail-templates", kind, language, body=parts)
    saved = run_as_operator(None, org, route, work, json=json)
    print_change(saved, f"saved {', '.join(saved.own)} of {kind} in {language}", json=json)


@app.command()
def delete(kind: KindArgument, language: LanguageArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Delete what the org wrote; our words are sent again."""

    async def work(commands: "OrgRuntime") -> "MailTemplateBody":
        from assent.bodies.administration import MailTemplateBody

        return MailTemplateBody.of(await commands.mail_templates.delete(kind, language))

    route = delete_route("mail-templates", kind, language)
    deleted = run_as_operator(None, org, route, work, json=json)
    print_change(deleted, f"deleted {kind} in {language}", json=json)


@app.command()
def preview(
    kind: KindArgument,
    language: LanguageArgument,
    org: OrgOption,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="A template that is not saved yet; the saved one without it."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show a mail with example values."""
    parts = yaml_object(file) if file is not None else None

    async def work(commands: "OrgRuntime") -> "MailPreviewBody":
        from assent.bodies.administration import MailPreviewBody

        return MailPreviewBody.of(await commands.mail_templates.preview(kind, language, parts))

    route = post("mail-templates", kind, language, "preview", body=parts or {})
    words = run_as_operator(None, org, route, work, json=json)
    if json:
        print_body(words)
        return
    console().print(words.subject, style="bold", markup=False, highlight=False)
    console().print(f"\n{words.text}", markup=False, highlight=False)


def _table(templates: "Sequence[Any]") -> "Table":
    from assent.cli.output import table

    rows = [[one.kind, one.language, ", ".join(one.own) or "ours", one.updated_by] for one in templates]
    return table(("kind", "language", "the org's own", "by"), rows)


@preferences.command("show")
@by_member
def show_preferences(who: ActorOptions) -> None:
    """Show how a member is written to."""

    async def work(session: ActorSession) -> "PreferencesBody":
        from assent.bodies.administration import PreferencesBody

        return PreferencesBody.of(await session.commands.preferences.get())

    _print_preferences(act(who, get("preferences"), work), who.json)


@preferences.command("set")
@by_member
def set_preferences(  # noqa: PLR0913, PLR0917
    who: ActorOptions,
    language: Annotated[
        str | None, typer.Option("--language", help="Such as en or de; an empty one is that of the org.")
    ] = None,
    time_zone: Annotated[str | None, typer.Option("--time-zone", help="Such as Europe/Berlin.")] = None,
    mails: Annotated[
        str | None, typer.Option("--mails", help="When mails that ask come: at_once, daily or none.")
    ] = None,
    digest_hour: Annotated[
        int | None,
        typer.Option("--digest-hour", min=0, max=23, help="Of the daily digest, in the time zone."),
    ] = None,
    decides_by_mail: Annotated[
        bool | None,
        typer.Option(
            "--decide-by-mail/--no-decide-by-mail",
            help="By links in mails to the present address, where the org allows them.",
        ),
    ] = None,
) -> None:
    """Set how a member is written to; what is not named stays."""
    given = {
        "language": language,
        "time_zone": time_zone,
        "mails": mails,
        "digest_hour": digest_hour,
        "decides_by_mail": decides_by_mail,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter(
            "expected --language, --time-zone, --mails, --digest-hour or --decide-by-mail"
        )
    if changes.get("language") == "":
        changes["language"] = None

    async def work(session: ActorSession) -> "PreferencesBody":
        from assent.bodies.administration import PreferencesBody

        return PreferencesBody.of(await session.commands.preferences.change(changes))

    route = patch("preferences", body=changes)
    _print_preferences(act(who, route, work), who.json)


def _print_preferences(found: Any, json: bool) -> None:
    from assent.cli.output import table

    if json:
        print_body(found)
        return
    hour = f", at {found.digest_hour}:00" if found.mails == "daily" else ""
    rows = [
        ["language", found.language or "that of the org"],
        ["time zone", found.time_zone],
        ["mails that ask", f"{found.mails}{hour}"],
        ["decides by mail", "yes, where the org allows it" if found.decides_by_mail else "no"],
    ]
    print_table(table((f"{found.user_id}", ""), rows))
