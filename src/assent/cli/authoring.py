"""Commands for authors that need no database: `check`, `compile`, `diagram`, `diff` and `schema`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from assent.cli.options import JsonOption, OptionalAppOption, OptionalPathsArgument, PathArgument, load_app


def check(
    paths: OptionalPathsArgument = None,
    app: OptionalAppOption = None,
    json: JsonOption = False,
) -> None:
    """Check contracts, patches and flows, and print every problem. Exit code 1 means that there are some.

    With --app, operations, tasks, services, actions and channels that the application does not register are problems;
    without paths, what the application adds is checked.
    """
    from assent.bodies.definitions import CheckedBody
    from assent.cli.output import counted, print_body, print_problems, print_summary
    from assent.cli.sources import sources_given
    from assent.definitions.check import check_sources

    application = load_app(app) if app is not None else None
    sources = sources_given(paths, application)
    found = check_sources(sources) if application is None else application.check(*sources)
    if json:
        print_body(CheckedBody.of_check(found.problems, found.workflows))
    else:
        print_problems(found.problems, sources)
        what = f"{counted(len(sources), 'document')}, {counted(len(found.workflows), 'workflow')}"
        skipped = f" ({counted(len(found.scenarios), 'scenario')} not run)" if found.scenarios else ""
        print_summary(found.problems, what + skipped)
    raise typer.Exit(1 if found.problems else 0)


OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write the JSON into this file.")]


def compile_(path: PathArgument, json: JsonOption = False, out: OutOption = None) -> None:
    """Compile contracts with their patches, and flows; print a summary, or the whole workflow as JSON."""
    from assent.cli.sources import as_json, compiled_at, one_line

    found = compiled_at(path)
    if out is not None:
        out.write_text(as_json(found), encoding="utf-8")
    if json:
        typer.echo(as_json(found), nl=False)
    else:
        typer.echo("\n".join(one_line(workflow) for workflow in found))


def diagram(path: PathArgument) -> None:
    """Print the workflow at PATH as a Mermaid flowchart; several are each headed by a comment."""
    from assent.cli.sources import compiled_at
    from assent.compiler.diagram import diagram as drawn

    workflows = compiled_at(path)
    for workflow in workflows:
        if len(workflows) > 1:
            typer.echo(f"%% {workflow.key} {workflow.version}")
        typer.echo(drawn(workflow), nl=False)


NewerArgument = Annotated[
    Path | None, typer.Argument(help="The newer version; without it, the bare envelope is older.")
]


def diff(path: PathArgument, newer: NewerArgument = None, json: JsonOption = False) -> None:
    """Print what differs, slot by slot: a contract's patches against its bare envelope, or two versions."""
    from assent.bodies.body import Page
    from assent.bodies.definitions import DefinitionDiff
    from assent.cli.output import print_body
    from assent.cli.sources import changes_of_patches, changes_of_versions

    found = changes_of_patches(path) if newer is None else changes_of_versions(path, newer)
    if json:
        print_body(Page(items=[DefinitionDiff.of_diff(difference) for difference in found]))
    else:
        typer.echo("\n".join(difference.to_text() for difference in found), nl=False)


class SchemaKind(StrEnum):
    CONTRACT = "contract"
    PATCH = "patch"
    FLOW = "flow"
    SCENARIO = "scenario"


def schema(kind: Annotated[SchemaKind, typer.Argument(help="What the schema is of.")]) -> None:
    """Print the JSON Schema (Draft 2020-12) of a contract, a patch, a flow or a scenario."""
    from assent.compiler.schemas import schema_text, text_of

    if kind is SchemaKind.SCENARIO:
        from assent.testing.scenarios.scenario import scenario_schema

        typer.echo(text_of(scenario_schema()), nl=False)
    else:
        typer.echo(schema_text(kind.value), nl=False)
