"""`assent definitions`: publish what authors wrote, list every version, recompile after a release."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.options import JsonOption, OptionalAppOption, load_app, named
from assent.cli.session import migrated_database, operator

if TYPE_CHECKING:
    from assent.compiler.source import Source
    from assent.definitions import DefinitionVersion, Publication, Recompiled
    from assent.definitions.publish import PublishedSources
    from assent.model.problems import Problem


app = typer.Typer(no_args_is_help=True, help="Definitions: publish, list and recompile them.")


@app.command("list")
def list_definitions(
    org: Annotated[str | None, typer.Option("--org", help="Only of this org; '*' means everybody.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also what was archived.")] = False,
    json: JsonOption = False,
) -> None:
    """List the definitions that are published or in draft, with version, hash and compiler."""
    from assent.bodies.body import Page
    from assent.bodies.definitions import DefinitionSummary
    from assent.cli.output import console, print_body
    from assent.store.errors import StoreError

    try:
        found = asyncio.run(_list(org))
    except StoreError as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    shown = [version for version in found if every or version.status != "archived"]
    if json:
        print_body(Page(items=[DefinitionSummary.of(version) for version in shown]))
    else:
        lines = [f"{version.status:<9}  {one_line(version)}" for version in shown]
        typer.echo("\n".join(lines) or "Nothing is published yet; see `assent definitions publish --help`.")


async def _list(org_id: str | None) -> "list[DefinitionVersion]":
    from assent.definitions import list_versions

    async with migrated_database() as database, database.transaction(None) as connection:
        return await list_versions(connection, org_id)


def one_line(version: "DefinitionVersion") -> str:
    """A definition as the commands print it: whose, what, which version, and what it compiled to."""
    compiled = f"  {version.compiled_hash}" if version.compiled_hash else ""
    return f"{version.org_id}  {version.definition_kind}  {version.key} {version.version}{compiled}"


OrgOption = Annotated[
    str,
    typer.Option(
        "--org", help="The org that patches and flows are for; '*' means everybody.", callback=named
    ),
]


@app.command()
def publish(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders, or - for standard input.")],
    org: OrgOption,
    app: OptionalAppOption = None,
    json: JsonOption = False,
) -> None:
    """Publish contracts for everybody, patches and flows for an org: all of them, or none.

    Prints every problem with its line, and ends with 1, where there is one. With --app, operations, tasks, services,
    actions and channels that the application does not register are problems.
    """
    from assent.bodies.definitions import PublicationsBody
    from assent.cli.output import print_body
    from assent.cli.refusals import exit_with
    from assent.cli.sources import sources_at
    from assent.model.problems import Invalid

    sources = sources_at(paths)
    try:
        if app is not None and (problems := load_app(app).check(*sources).problems):
            raise Invalid(problems)
        done = asyncio.run(_publish(org, sources))
    except Invalid as invalid:
        _show_problems(invalid.problems, sources, json=json)
        raise typer.Exit(1) from None
    except Exception as error:
        exit_with(error, json=json)
    if json:
        print_body(PublicationsBody.of_publications(done.publications))
    else:
        typer.echo("\n".join(_lines(done)) or "There is nothing to publish.")


def _show_problems(problems: "Sequence[Problem]", sources: "Sequence[Source]", *, json: bool) -> None:
    from assent.bodies.definitions import CheckedBody
    from assent.cli.output import counted, print_body, print_problems, print_summary

    if json:
        print_body(CheckedBody.of_check(problems, ()))
        return
    print_problems(problems, sources, stderr=True)
    print_summary(problems, f"{counted(len(sources), 'document')}; nothing was published", stderr=True)


async def _publish(org_id: str, sources: "Sequence[Source]") -> "PublishedSources":
    from assent.definitions.publish import publish_sources
    from assent.model.actor import SYSTEM
    from assent.store.connection import Connection

    async with migrated_database() as database:

        async def work(connection: Connection) -> "PublishedSources":
            return await publish_sources(connection, org_id, sources, SYSTEM, database.clock.now())

        return await database.run(work, org_id=None, by=operator())


def _lines(done: "PublishedSources") -> list[str]:
    lines = [line for publication in done.publications for line in _lines_of(publication)]
    return [
        *dict.fromkeys(lines),
        *(f"skipped    {name}: runs without a workflow" for name in done.without_workflow),
    ]


def _lines_of(publication: "Publication") -> list[str]:

    verb = "published" if publication.changed else "unchanged"
    found = dict.fromkeys(part for part in (publication.source, publication.effective) if part)
    return [f"{verb}  {one_line(part)}" for part in found]


@app.command()
def recompile(json: JsonOption = False) -> None:
    """Compile stale definitions again, and move their instances where the graph is the same.

    Ends with 1 where something stays stale: its source has problems now, or its instances cannot move.
    """
    from assent.bodies.body import Page
    from assent.bodies.definitions import RecompiledBody
    from assent.cli.output import print_body
    from assent.cli.refusals import exit_with

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


def _text(one: "Recompiled") -> str:
    from assent.cli.output import counted

    lines = [f"stale       {one_line(one.old)}"]
    if one.new is not None:
        lines.append(f"recompiled  {one_line(one.new)}")
    lines += [f"problem     {problem}" for problem in one.problems]
    if one.moved:
        lines.append(f"moved       {counted(one.moved, 'instance')}")
    if one.staying:
        why = "the graph differs" if one.new else "there is nothing to move to"
        lines.append(f"staying     {counted(len(one.staying), 'instance')}: {why}")
        lines += [f"            {org_id}  {instance_id}" for org_id, instance_id in one.staying]
    return "\n".join(lines)
