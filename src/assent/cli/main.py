"""The command line: the one list of its commands.

Each command lives in a file of its own and imports what it needs when it runs, so that `assent --help` waits
neither for the compiler nor for a database driver.
"""

from typing import Annotated

import typer

from assent import __version__
from assent.cli import (
    advance,
    approve,
    audit,
    check,
    compile,
    definitions,
    demo,
    diagram,
    diff,
    dlq,
    doctor,
    events,
    expression,
    health,
    inbox,
    keys,
    list,
    members,
    migrate,
    publish,
    rebuild,
    recompile,
    roles,
    schema,
    secrets,
    serve,
    show,
    start,
    templates,
    test,
    worker,
)

app = typer.Typer(
    name="assent",
    help="Workflows for business documents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"assent {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


PEOPLE = "For people with work to do"
AUTHORS = "For authors of workflows"
OPERATORS = "For whoever runs it"

app.command(rich_help_panel=PEOPLE)(start.start)
app.command(rich_help_panel=PEOPLE)(inbox.inbox)
app.command(rich_help_panel=PEOPLE)(approve.approve)
app.command(rich_help_panel=PEOPLE)(advance.advance)
app.command("list", rich_help_panel=PEOPLE)(list.list_)
app.command(rich_help_panel=PEOPLE)(show.show)
app.command(rich_help_panel=AUTHORS)(check.check)
app.command("test", rich_help_panel=AUTHORS)(test.run_tests)
app.command("compile", rich_help_panel=AUTHORS)(compile.compile_)
app.command(rich_help_panel=AUTHORS)(diagram.diagram)
app.command(rich_help_panel=AUTHORS)(diff.diff)
app.command(rich_help_panel=AUTHORS)(publish.publish)
app.command(rich_help_panel=AUTHORS)(definitions.definitions)
app.command(rich_help_panel=AUTHORS)(recompile.recompile)
app.command(rich_help_panel=AUTHORS)(schema.schema)
app.command(rich_help_panel=AUTHORS)(expression.expression)
app.add_typer(templates.app, name="templates", rich_help_panel=AUTHORS)
app.command(rich_help_panel=OPERATORS)(demo.demo)
app.command(rich_help_panel=OPERATORS)(migrate.migrate)
app.command(rich_help_panel=OPERATORS)(doctor.doctor)
app.command(rich_help_panel=OPERATORS)(serve.serve)
app.command(rich_help_panel=OPERATORS)(worker.worker)
app.command(rich_help_panel=OPERATORS)(health.health)
app.add_typer(members.app, name="members", rich_help_panel=OPERATORS)
app.add_typer(roles.app, name="roles", rich_help_panel=OPERATORS)
app.command(rich_help_panel=OPERATORS)(audit.audit)
app.add_typer(keys.app, name="keys", rich_help_panel=OPERATORS)
app.add_typer(secrets.app, name="secrets", rich_help_panel=OPERATORS)
app.add_typer(events.app, name="events", rich_help_panel=OPERATORS)
app.add_typer(dlq.app, name="dlq", rich_help_panel=OPERATORS)
app.command(rich_help_panel=OPERATORS)(rebuild.rebuild)
