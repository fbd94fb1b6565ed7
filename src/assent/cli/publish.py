"""`assent publish`: what authors wrote is compiled, kept, and starts from now on."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assent.cli.database import migrated_database, operator
from assent.cli.options import JsonOption, named

if TYPE_CHECKING:
    from assent.compiler.source import Source
    from assent.definitions import Publication
    from assent.definitions.publish_sources import PublishedSources
    from assent.model.problems import Problem

OrgOption = Annotated[
    str,
    typer.Option(
        "--org", help="The org that patches and flows are for; '*' means everybody.", callback=named
    ),
]


def publish(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders, or - for standard input.")],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Publish contracts for everybody, patches and flows for an org: all of them, or none.

    Prints every problem with its line, and ends with 1, where there is one.
    """
    from assent.cli.files import sources_at
    from assent.cli.refusals import exit_with
    from assent.cli.report import print_json
    from assent.model.problems import Invalid

    sources = sources_at(paths)
    try:
        done = asyncio.run(_publish(org, sources))
    except Invalid as invalid:
        _show_problems(invalid.problems, sources, json=json)
        raise typer.Exit(1) from None
    except Exception as error:
        exit_with(error)
    if json:
        print_json({"problems": [], "published": [as_json(found) for found in done.publications]})
    else:
        typer.echo("\n".join(_lines(done)) or "There is nothing to publish.")


def _show_problems(problems: "Sequence[Problem]", sources: "Sequence[Source]", *, json: bool) -> None:
    from assent.cli.report import counted, print_json, print_problems, print_summary

    if json:
        print_json({"problems": [problem.to_json() for problem in problems]})
        return
    print_problems(problems, sources, stderr=True)
    print_summary(problems, f"{counted(len(sources), 'document')}; nothing was published", stderr=True)


async def _publish(org_id: str, sources: "Sequence[Source]") -> "PublishedSources":
    from assent.definitions.publish_sources import publish_sources
    from assent.model.actor import SYSTEM
    from assent.store.connect import Connection

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
    from assent.cli.definitions import one_line

    verb = "published" if publication.changed else "unchanged"
    found = dict.fromkeys(part for part in (publication.source, publication.effective) if part)
    return [f"{verb}  {one_line(part)}" for part in found]


def as_json(publication: "Publication") -> dict[str, object]:
    effective = publication.effective
    return {
        "source": publication.source.to_json(),
        "effective": effective.to_json() if effective else None,
        "changed": publication.changed,
    }
