"""`assent definitions`: publish what authors wrote, list every version, recompile after a release."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.options import JsonOption, OptionalAppOption, OptionalPathsArgument, load_app, named
from assent.cli.remote import current_server, get, post
from assent.cli.session import (
    BY_KEY,
    ActorOptions,
    ActorSession,
    AppOption,
    UserOption,
    act,
    answer,
    ask,
    by_member,
    migrated_database,
    operator,
)
from assent.cli.session import OrgOption as MemberOrgOption

if TYPE_CHECKING:
    from assent.app import App
    from assent.bodies.definitions import (
        DefinitionBody,
        DefinitionDiff,
        DefinitionSummary,
        PublicationBody,
    )
    from assent.compiler.source import Source
    from assent.definitions import DefinitionVersion, Recompiled
    from assent.definitions.publish import PublishedSources
    from assent.model.problems import Problem


app = typer.Typer(no_args_is_help=True, help="Definitions: publish, list, show, compare and archive them.")


@app.command("list")
def list_definitions(
    org: Annotated[str | None, typer.Option("--org", help="Only of this org; '*' means everybody.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also what was archived.")] = False,
    json: JsonOption = False,
) -> None:
    """List the definitions that are published or in draft, with version, hash and compiler."""
    from assent.cli.output import print_body

    server = current_server()
    if server is None:
        found = _list_here(org)
    else:
        found = ask(server, lambda server: server.pages(get("definitions")), json=json, org=org)
    shown = [version for version in found if every or version.status != "archived"]
    if json:
        print_body({"items": shown, "next": None})
    else:
        lines = [f"{version.status:<9}  {one_line(version)}" for version in shown]
        typer.echo("\n".join(lines) or "Nothing is published yet; see `assent definitions publish --help`.")


def _list_here(org_id: str | None) -> list[Any]:
    from assent.bodies.definitions import DefinitionSummary
    from assent.cli.output import console
    from assent.store.errors import StoreError

    try:
        return [answer(DefinitionSummary.of(version)) for version in asyncio.run(_list(org_id))]
    except StoreError as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None


async def _list(org_id: str | None) -> "list[DefinitionVersion]":
    from assent.definitions import list_versions

    async with migrated_database() as database, database.transaction(None) as connection:
        return await list_versions(connection, org_id)


def one_line(version: Any) -> str:
    """Return a definition as the commands print it: whose, what, which version, and what it compiled to."""
    compiled = f"  {version.hash}" if version.hash else ""
    return f"{version.org_id}  {version.kind}  {version.key} {version.version}{compiled}"


DefinitionArgument = Annotated[
    UUID, typer.Argument(metavar="ID", help="A version of a definition, by its whole id.")
]


@app.command()
@by_member
def show(who: ActorOptions, definition: DefinitionArgument) -> None:
    """Show a version with its source. Takes `definitions:read`, or a capability to edit or publish definitions."""
    from assent.cli.output import print_body, print_json

    async def work(session: ActorSession) -> "DefinitionBody":
        from assent.bodies.definitions import DefinitionBody

        return DefinitionBody.of_content(await session.commands.definitions.get(definition))

    found = act(who, get("definitions", definition), work)
    if who.json:
        print_body(found)
    else:
        typer.echo(f"{found.status}  {one_line(found)}")
        print_json(found.source)


@app.command()
def draw(definition: DefinitionArgument, app: AppOption, org: MemberOrgOption, user: UserOption) -> None:
    """Print a version as a Mermaid flowchart; `assent diagram` draws a file."""

    async def work(session: ActorSession) -> str:
        from json import dumps

        return dumps(await session.commands.definitions.draw(definition))

    route = get("definitions", definition, "diagram")
    typer.echo(act(ActorOptions(app, org, user, json=False), route, work), nl=False)


@app.command()
@by_member
def compare(
    who: ActorOptions,
    definition: DefinitionArgument,
    other: Annotated[UUID, typer.Argument(metavar="OTHER", help="The version that it is compared with.")],
) -> None:
    """Print how another version differs, slot by slot; `assent diff` compares files."""
    from assent.cli.output import print_body

    async def work(session: ActorSession) -> "DefinitionDiff":
        from assent.bodies.definitions import DefinitionDiff

        return DefinitionDiff.between(*await session.commands.definitions.workflows(definition, other))

    route = get("definitions", definition, "diff", other)
    found = act(who, route, work)
    if who.json:
        print_body(found)
    else:
        typer.echo(found.text)


@app.command()
@by_member
def archive(who: ActorOptions, definition: DefinitionArgument) -> None:
    """Archive a version: no new instance starts from it, and running ones continue. Takes `definitions:publish`."""
    from assent.cli.output import print_body

    async def work(session: ActorSession) -> "DefinitionSummary":
        from assent.bodies.definitions import DefinitionSummary

        return DefinitionSummary.of(await session.commands.definitions.archive(definition))

    route = post("definitions", definition, "archive")
    done = act(who, route, work)
    if who.json:
        print_body(done)
    else:
        typer.echo(f"archived   {one_line(done)}")


@app.command()
@by_member
def rollback(who: ActorOptions, definition: DefinitionArgument) -> None:
    """Publish an archived version again, and archive the current one. Takes `definitions:publish`."""
    from assent.cli.output import print_body

    async def work(session: ActorSession) -> "PublicationBody":
        from assent.bodies.definitions import PublicationBody

        return PublicationBody.of_publication(await session.commands.definitions.roll_back(definition))

    route = post("definitions", definition, "rollback")
    done = act(who, route, work)
    if who.json:
        print_body(done)
    else:
        typer.echo(f"published  {one_line(done.definition)}")


def print_draft(draft: Any) -> None:
    """Print a draft with its tag and its problems."""
    from assent.cli.output import console, safe

    out = console()
    out.print(f"{draft.id}  {one_line(draft)}", style="bold")
    out.print(f"  version {draft.tag}, edited by {safe(', '.join(draft.edited_by))}")
    for problem in draft.problems:
        place = ".".join(map(str, problem.path))
        out.print(
            f"  {problem.code} {safe(f'{place}: ' if place else '')}{safe(problem.message)}", style="yellow"
        )
    if not draft.problems:
        out.print("  ✓ it can be published", style="green")


OrgOption = Annotated[
    str,
    typer.Option(
        "--org",
        envvar="ASSENT_ORG",
        help="The org that patches and flows are for; '*' means everybody.",
        callback=named,
    ),
]


@app.command()
def publish(
    org: OrgOption,
    paths: OptionalPathsArgument = None,
    app: OptionalAppOption = None,
    json: JsonOption = False,
) -> None:
    """Publish contracts for everybody, patches and flows for an org: all of them, or none.

    Prints every problem with its line, and ends with 1, where there is one. With --app, operations, tasks, services,
    actions and channels that the application does not register are problems, and the engine's role gets the rights on
    the application's own tables that it declares. Without paths, what the application adds is published.
    """
    from assent.cli.output import print_body
    from assent.cli.refusals import exit_with
    from assent.cli.sources import sources_given, texts_at, texts_of
    from assent.model.problems import Invalid

    server = current_server()
    application = load_app(app) if app is not None and app != BY_KEY else None
    sources = (
        sources_given(paths, application) if server is None or application is not None or not paths else []
    )
    texts = [] if server is None else texts_at(paths) if paths else texts_of(sources)
    try:
        if application is not None and (problems := application.check(*sources).problems):
            raise Invalid(problems)
        if server is not None:
            body = {"sources": [{"name": name, "text": text} for name, text in texts]}
            done = ask(server, post("definitions", "publish", body=body), json=json, org=org)
            skipped: Sequence[str] = ()
        else:
            done, skipped = _publish_here(org, sources, application)
    except Invalid as invalid:
        _show_problems(invalid.problems, sources, json=json)
        raise typer.Exit(1) from None
    except Exception as error:
        exit_with(error, json=json)
    if json:
        print_body(done)
    else:
        lines = [line for publication in done.publications for line in _lines_of(publication)]
        lines = [*dict.fromkeys(lines), *(f"skipped    {name}: runs without a workflow" for name in skipped)]
        typer.echo("\n".join(lines) or "There is nothing to publish.")


def _publish_here(
    org: str, sources: "Sequence[Source]", application: "App | None"
) -> tuple[Any, "Sequence[str]"]:
    from assent.bodies.definitions import PublicationsBody

    done = asyncio.run(_publish(org, sources, application))
    return answer(PublicationsBody.of_publications(done.publications)), done.without_workflow


def _show_problems(problems: "Sequence[Problem]", sources: "Sequence[Source]", *, json: bool) -> None:
    from assent.bodies.definitions import CheckedBody
    from assent.cli.output import counted, print_body, print_problems, print_summary

    if json:
        print_body(CheckedBody.of_check(problems, ()))
        return
    print_problems(problems, sources, stderr=True)
    print_summary(problems, f"{counted(len(sources), 'document')}; nothing was published", stderr=True)


async def _publish(org_id: str, sources: "Sequence[Source]", app: "App | None") -> "PublishedSources":
    from assent.definitions.publish import publish_sources
    from assent.model.actor import SYSTEM
    from assent.runtime.declared_names import names_of, record_names
    from assent.store.connection import Connection
    from assent.store.table_grants import grant_tables
    from assent.worker.options import Options

    length = timedelta(milliseconds=Options().newer_code_wait_ms)
    async with migrated_database() as database:

        async def work(connection: Connection) -> "PublishedSources":
            if app is not None:
                await grant_tables(connection, app.grants)
                # Its workers come next: until then those that run leave to them what it declares.
                await record_names(connection, names_of(app.runtime(database).core), length)
            return await publish_sources(connection, org_id, sources, SYSTEM, database.clock.now())

        return await database.run(work, org_id=None, by=operator())


def _lines_of(publication: Any) -> list[str]:

    verb = "published" if publication.changed else "unchanged"
    found = dict.fromkeys(one_line(part) for part in (publication.definition, publication.effective) if part)
    return [f"{verb}  {line}" for line in found]


@app.command()
def recompile(json: JsonOption = False) -> None:
    """Compile stale definitions again, and move their instances where the graph is the same.

    Ends with 1 where something stays stale: its source has problems now, or its instances cannot move.
    """
    from assent.bodies.body import Page
    from assent.bodies.definitions import RecompiledBody
    from assent.cli.output import print_body
    from assent.cli.refusals import exit_with
    from assent.cli.session import require_database

    require_database()
    try:
        found = asyncio.run(_recompile())
    except Exception as error:
        exit_with(error, json=json)
    if json:
        print_body(Page(items=[RecompiledBody.of_recompiled(one) for one in found]))
    else:
        typer.echo("\n\n".join(map(_text, found)) or "Nothing is stale.")
    raise typer.Exit(1 if any(one.new is None or one.staying for one in found) else 0)


async def _recompile() -> "list[Recompiled]":
    from assent.app import App
    from assent.definitions import recompile
    from assent.runtime.operation_commands import repin

    async with migrated_database() as database:
        # Moving an instance runs none of its steps, so no application has to be named.
        advancing = App().runtime(database).core.advancing
        return await recompile(database, lambda moves: repin(database, advancing, moves))


def _seen(version: "DefinitionVersion") -> Any:
    from assent.bodies.definitions import DefinitionSummary

    return answer(DefinitionSummary.of(version))


def _text(one: "Recompiled") -> str:
    from assent.cli.output import counted

    lines = [f"stale       {one_line(_seen(one.old))}"]
    if one.new is not None:
        lines.append(f"recompiled  {one_line(_seen(one.new))}")
    lines += [f"problem     {problem}" for problem in one.problems]
    if one.moved:
        lines.append(f"moved       {counted(one.moved, 'instance')}")
    if one.staying:
        why = "the graph differs" if one.new else "there is nothing to move to"
        lines.append(f"staying     {counted(len(one.staying), 'instance')}: {why}")
        lines += [f"            {org_id}  {instance_id}" for org_id, instance_id in one.staying]
    return "\n".join(lines)
