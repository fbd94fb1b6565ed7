"""The command line: the one list of its commands.

There is one file per noun; a command imports what it needs when it runs, so that `assent --help` waits
neither for the compiler nor for a database driver.
"""

from typing import Annotated

import typer

from assent import __version__
from assent.cli import (
    approvals,
    audit,
    authoring,
    chains,
    dead_letters,
    definitions,
    demo,
    doctor,
    events,
    expression,
    health,
    inbox,
    incidents,
    instances,
    keys,
    members,
    migrate,
    org,
    rebuild,
    roles,
    rules,
    secrets,
    serve,
    templates,
    test,
    worker,
)

app = typer.Typer(
    name="assent",
    help="Workflows for business documents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
OPERATORS = "For operators"

app.command(rich_help_panel=PEOPLE)(inbox.inbox)
app.add_typer(instances.app, name="instances", rich_help_panel=PEOPLE)
app.add_typer(approvals.app, name="approvals", rich_help_panel=PEOPLE)
app.command(rich_help_panel=AUTHORS)(authoring.check)
app.command("test", rich_help_panel=AUTHORS)(test.run_tests)
app.command("compile", rich_help_panel=AUTHORS)(authoring.compile_)
app.command(rich_help_panel=AUTHORS)(authoring.diagram)
app.command(rich_help_panel=AUTHORS)(authoring.diff)
app.command(rich_help_panel=AUTHORS)(authoring.schema)
app.command(rich_help_panel=AUTHORS)(expression.expression)
app.add_typer(definitions.app, name="definitions", rich_help_panel=AUTHORS)
app.add_typer(templates.app, name="templates", rich_help_panel=AUTHORS)
app.command(rich_help_panel=OPERATORS)(demo.demo)
app.command(rich_help_panel=OPERATORS)(migrate.migrate)
app.command(rich_help_panel=OPERATORS)(doctor.doctor)
app.command(rich_help_panel=OPERATORS)(serve.serve)
app.command(rich_help_panel=OPERATORS)(worker.worker)
app.command(rich_help_panel=OPERATORS)(health.health)
app.command(rich_help_panel=OPERATORS)(incidents.incidents)
app.add_typer(org.app, name="org", rich_help_panel=OPERATORS)
app.add_typer(members.app, name="members", rich_help_panel=OPERATORS)
app.add_typer(roles.app, name="roles", rich_help_panel=OPERATORS)
app.command(rich_help_panel=OPERATORS)(audit.audit)
app.add_typer(keys.app, name="keys", rich_help_panel=OPERATORS)
app.add_typer(secrets.app, name="secrets", rich_help_panel=OPERATORS)
app.add_typer(secrets.signing, name="signing-secrets", rich_help_panel=OPERATORS)
app.add_typer(rules.app, name="rules", rich_help_panel=OPERATORS)
app.add_typer(chains.app, name="chains", rich_help_panel=OPERATORS)
app.add_typer(events.app, name="events", rich_help_panel=OPERATORS)
app.add_typer(dead_letters.app, name="dead-letters", rich_help_panel=OPERATORS)
app.command(rich_help_panel=OPERATORS)(rebuild.rebuild)
