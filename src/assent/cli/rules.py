"""`assent rules`: what an org denies, sets or emits around actions; and the history of evaluations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, yaml_object
from assent.cli.output import console, print_body, print_list, print_problems
from assent.cli.session import AppOption, OrgOption, run_as_operator

if TYPE_CHECKING:
    from rich.table import Table

    from assent.kernel.saved_rules import RuleEvaluation, SavedRule
    from assent.runtime.runtime import OrgRuntime

LISTED_MAX: Final = 1_000

app = typer.Typer(
    no_args_is_help=True, help="Rules around actions: saved, listed, deleted; their evaluations."
)

TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="Such as invoice.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The rule.")]


@app.command("list")
def list_(
    org: OrgOption,
    entity_type: Annotated[str | None, typer.Option("--entity-type", help="Only those for this one.")] = None,
    limit: LimitOption = LISTED_MAX,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """List the rules of an org, by entity type and name."""
    from assent.bodies.administration import RuleBody

    async def work(commands: "OrgRuntime") -> "list[SavedRule]":
        from assent.model.cursor import position_of, texts_in

        return await commands.rules.list(entity_type, after=position_of(cursor, texts_in), limit=limit + 1)

    print_list(
        *(run_as_operator(None, org, work, json=json), limit, RuleBody.of, lambda rule: rule.position),
        json=json,
        show=_rules,
        none="There is no rule.",
    )


@app.command()
def show(entity_type: TypeArgument, name: NameArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Show a rule."""
    rule = run_as_operator(None, org, lambda commands: commands.rules.get(entity_type, name), json=json)
    _print(rule, json)


@app.command()
def save(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The rule as YAML or JSON; - for standard input.")
    ],
    org: OrgOption,
    app: AppOption,
    json: JsonOption = False,
) -> None:
    """Save a rule, in place of the one of its name; it is checked against the contract of the application."""
    from assent.bodies.administration import SavedRuleBody

    rule = yaml_object(file)
    saved = run_as_operator(app, org, lambda commands: commands.rules.save(rule), json=json)
    if json:
        print_body(SavedRuleBody.of(saved))
        return
    console().print(f"✓ saved {saved.name} for {saved.entity_type}")
    print_problems(saved.warnings, [], stderr=True)


@app.command()
def delete(entity_type: TypeArgument, name: NameArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Delete a rule; the history of its evaluations stays."""
    from assent.bodies.administration import RuleBody

    gone = run_as_operator(None, org, lambda commands: commands.rules.delete(entity_type, name), json=json)
    if json:
        print_body(RuleBody.of(gone))
    else:
        console().print(f"✓ deleted {gone.name}")


@app.command()
def evaluations(  # noqa: PLR0913, PLR0917
    entity_type: TypeArgument,
    name: NameArgument,
    org: OrgOption,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """List the evaluations of a rule, newest first: for what, with which values, and what it did."""
    from assent.bodies.administration import RuleEvaluationBody

    async def work(commands: "OrgRuntime") -> "list[RuleEvaluation]":
        from assent.model.cursor import id_in, position_of

        after = position_of(cursor, id_in)
        return await commands.rules.list_evaluations(entity_type, name, after=after, limit=limit + 1)

    found = run_as_operator(None, org, work, json=json)
    print_list(
        *(found, limit, RuleEvaluationBody.of, lambda evaluation: str(evaluation.id)),
        json=json,
        show=_evaluations,
        none="It was never evaluated.",
    )


def _print(rule: "SavedRule", json: bool) -> None:
    from assent.bodies.administration import RuleBody
    from assent.cli.output import print_table

    if json:
        print_body(RuleBody.of(rule))
    else:
        print_table(_rules([rule]))


def _rules(rules: "Sequence[SavedRule]") -> "Table":
    from assent.cli.output import table

    rows = (
        [
            rule.entity_type,
            rule.name,
            f"{rule.timing} {rule.action}",
            str(rule.condition),
            rule.outcome,
            str(dict(rule.outcome_json)),
            "" if rule.enabled else "disabled",
        ]
        for rule in rules
    )
    return table(("entity type", "name", "when", "condition", "outcome", "then", ""), rows)


def _evaluations(evaluations: "Sequence[RuleEvaluation]") -> "Table":
    from assent.cli.output import moment, table

    rows = (
        [
            moment(one.at),
            one.action,
            str(one.entity_id),
            one.actor_id,
            str(one.result).lower(),
            one.outcome,
            str(dict(one.variables)),
        ]
        for one in evaluations
    )
    return table(("at", "action", "entity", "by", "result", "outcome", "values"), rows)
