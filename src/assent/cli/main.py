"""The command line: the one list of its commands.

There is one file per noun; a command imports what it needs when it runs, so that `assent --help` waits
neither for the compiler nor for a database driver.
"""

from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from assent import __version__
from assent.cli import (
    approvals,
    attachments,
    audit,
    authoring,
    chains,
    comments,
    dead_letters,
    definitions,
    delegations,
    demo,
    doctor,
    documents,
    drafts,
    entities,
    event_sources,
    events,
    expression,
    filters,
    forms,
    health,
    inbox,
    incidents,
    instances,
    keys,
    mails,
    members,
    migrate,
    nodes,
    org,
    outside_requests,
    profiles,
    rebuild,
    requirements,
    resources,
    roles,
    rules,
    schedules,
    secrets,
    serve,
    services,
    tasks,
    templates,
    test,
    verbs,
    worker,
)
from assent.cli.remote import choose_none, choose_server, current_server
from assent.cli.session import BY_KEY

_OF_A_SERVER: Final = ("--server", "--key", "--profile")


class FlagCommand(TyperCommand):
    """A command whose flags show no type: `--json`, not `--json <bool>`, which reads as if it took a value.

    For an option that chooses a server it says where that stands: before the command.
    """

    def get_params(self, ctx: Any) -> Any:
        return _without_types_of_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            name = getattr(error, "option_name", None)
            if name not in _OF_A_SERVER:
                raise
            words = ctx.command_path.partition(" ")[2]
            message = f"it stands before the command: assent {name} … {words}"
            raise typer.BadParameter(message, ctx=ctx, param_hint=name) from None


class FlagGroup(TyperGroup):
    """A group of commands, the same."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types_of_flags(super().get_params(ctx))


def _without_types_of_flags(params: Any) -> Any:
    for parameter in params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return params


app = typer.Typer(
    name="assent",
    cls=FlagGroup,
    help="Workflows for business documents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"assent {__version__}")
        raise typer.Exit


FOR_THE_DATABASE: Final = frozenset({"demo", "doctor", "migrate", "serve", "worker"})
"""Commands of the operator of the processes and the database, which no server takes."""
FOR_FILES: Final = frozenset(
    {"check", "compile", "diagram", "diff", "expression", "profiles", "schema", "templates", "test"}
)
"""Commands that work on files, with or without a server."""
_KEY_DECIDES: Final = {"--app", "--org", "--as"}


@app.callback()
def _main(
    context: typer.Context,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Call this server, not the database (ASSENT_SERVER)."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The API key for the server; better in ASSENT_KEY or in a profile."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Call the server of this profile (ASSENT_PROFILE); see `profiles`."),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    command = context.invoked_subcommand
    if command in FOR_FILES:
        choose_none()
        return
    if command in FOR_THE_DATABASE:
        if server or profile:
            raise typer.BadParameter(
                f"`assent {command}` is for the operator of the database: it needs ASSENT_DATABASE_URL",
                param_hint="--server",
            )
        choose_none()
        return
    choose_server(server, key, profile)
    if current_server() is not None:
        context.default_map = _placeholders(context.command)


def _placeholders(command: Any) -> dict[str, Any]:
    """Return placeholders for the options of each command that the key of a server decides."""
    found: dict[str, Any] = {
        parameter.name: BY_KEY
        for parameter in command.params
        if parameter.required and not _KEY_DECIDES.isdisjoint(parameter.opts)
    }
    for name, each in getattr(command, "commands", {}).items():
        found[name] = _placeholders(each)
    return found


PEOPLE = "For people with work to do"
AUTHORS = "For authors of workflows"
OPERATORS = "For operators"

app.command(rich_help_panel=PEOPLE)(inbox.inbox)
app.add_typer(instances.app, name="instances", rich_help_panel=PEOPLE)
app.add_typer(entities.app, name="entities", rich_help_panel=PEOPLE)
app.add_typer(approvals.app, name="approvals", rich_help_panel=PEOPLE)
app.add_typer(comments.questions, name="questions", rich_help_panel=PEOPLE)
app.add_typer(comments.app, name="comments", rich_help_panel=PEOPLE)
app.add_typer(attachments.app, name="attachments", rich_help_panel=PEOPLE)
app.add_typer(forms.app, name="forms", rich_help_panel=PEOPLE)
app.add_typer(delegations.app, name="delegations", rich_help_panel=PEOPLE)
app.add_typer(mails.preferences, name="preferences", rich_help_panel=PEOPLE)
app.add_typer(filters.app, name="filters", rich_help_panel=PEOPLE)
app.add_typer(documents.app, name="documents", rich_help_panel=PEOPLE)
app.add_typer(requirements.app, name="requirements", rich_help_panel=PEOPLE)
app.add_typer(verbs.app, name="verbs", rich_help_panel=PEOPLE)
app.command(rich_help_panel=AUTHORS)(authoring.check)
app.command("test", rich_help_panel=AUTHORS)(test.run_tests)
app.command("compile", rich_help_panel=AUTHORS)(authoring.compile_)
app.command(rich_help_panel=AUTHORS)(authoring.diagram)
app.command(rich_help_panel=AUTHORS)(authoring.diff)
app.command(rich_help_panel=AUTHORS)(authoring.schema)
app.command(rich_help_panel=AUTHORS)(expression.expression)
app.add_typer(definitions.app, name="definitions", rich_help_panel=AUTHORS)
app.add_typer(drafts.app, name="drafts", rich_help_panel=AUTHORS)
app.add_typer(templates.app, name="templates", rich_help_panel=AUTHORS)
app.command(rich_help_panel=OPERATORS)(demo.demo)
app.command(rich_help_panel=OPERATORS)(migrate.migrate)
app.command(rich_help_panel=OPERATORS)(doctor.doctor)
app.command(rich_help_panel=OPERATORS)(serve.serve)
app.command(rich_help_panel=OPERATORS)(worker.worker)
app.command(rich_help_panel=OPERATORS)(health.health)
app.command(rich_help_panel=OPERATORS)(incidents.incidents)
app.command(rich_help_panel=OPERATORS)(nodes.nodes)
app.add_typer(org.app, name="org", rich_help_panel=OPERATORS)
app.add_typer(mails.app, name="mail-templates", rich_help_panel=OPERATORS)
app.add_typer(members.app, name="members", rich_help_panel=OPERATORS)
app.add_typer(roles.app, name="roles", rich_help_panel=OPERATORS)
app.command(rich_help_panel=OPERATORS)(audit.audit)
app.add_typer(keys.app, name="keys", rich_help_panel=OPERATORS)
app.add_typer(secrets.app, name="secrets", rich_help_panel=OPERATORS)
app.add_typer(secrets.signing, name="signing-secrets", rich_help_panel=OPERATORS)
app.add_typer(services.app, name="services", rich_help_panel=OPERATORS)
app.add_typer(rules.app, name="rules", rich_help_panel=OPERATORS)
app.add_typer(chains.app, name="chains", rich_help_panel=OPERATORS)
app.add_typer(event_sources.app, name="event-sources", rich_help_panel=OPERATORS)
app.add_typer(outside_requests.app, name="outside-requests", rich_help_panel=OPERATORS)
app.add_typer(events.app, name="events", rich_help_panel=OPERATORS)
app.add_typer(tasks.app, name="tasks", rich_help_panel=OPERATORS)
app.add_typer(resources.app, name="resources", rich_help_panel=OPERATORS)
app.add_typer(schedules.app, name="schedules", rich_help_panel=OPERATORS)
app.add_typer(dead_letters.app, name="dead-letters", rich_help_panel=OPERATORS)
app.command(rich_help_panel=OPERATORS)(rebuild.rebuild)
app.add_typer(profiles.app, name="profiles", rich_help_panel=OPERATORS)


def _show_flags_without_a_type(group: typer.Typer) -> None:
    for command in group.registered_commands:
        command.cls = FlagCommand
    for below in group.registered_groups:
        below.cls = FlagGroup
        if below.typer_instance is not None:
            _show_flags_without_a_type(below.typer_instance)


_show_flags_without_a_type(app)
