"""The command line: the one list of its commands.

Each command lives in a file of its own and imports what it needs when it runs, so that `assent --help` waits
neither for the compiler nor for a database driver.
"""

import typer

from assent.cli import (
    check,
    compile,
    definitions,
    demo,
    diagram,
    diff,
    expression,
    migrate,
    publish,
    recompile,
    schema,
    templates,
    test,
    worker,
)

app = typer.Typer(
    name="assent",
    help="Workflows for business documents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command()(demo.demo)
app.command()(migrate.migrate)
app.command()(worker.worker)
app.command()(check.check)
app.command("compile")(compile.compile_)
app.command()(diagram.diagram)
app.command()(diff.diff)
app.command()(publish.publish)
app.command()(definitions.definitions)
app.command()(recompile.recompile)
app.command()(schema.schema)
app.command()(expression.expression)
app.command("test")(test.run_tests)
app.add_typer(templates.app, name="templates")
