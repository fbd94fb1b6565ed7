"""`assent rules`: what an org denies, sets or emits around actions; and the history of evaluations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, yaml_object
from assent.cli.output import console, print_body, print_change, print_items, safe
from assent.cli.remote import Server, get, put
from assent.cli.remote import delete as delete_at
from assent.cli.session import AppOption, OrgOption, run_as_operator

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.administration import RuleBody, SavedRuleBody
    from assent.runtime.runtime import OrgRuntime

app = typer.Typer(
    no_args_is_help=True, help="Rules around actions: list, show, save and delete them; their evaluations."
)

TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="Such as invoice.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The rule.")]


@app.command("list")
def list_(
    org: OrgOption,
    entity_type: Annotated[str | None, typer.Option("--entity-type", help="Only those for this one.")] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    json: JsonOption = False,
) -> None:
    """List the rules of an org, by entity type and name."""

    async def work(commands: "OrgRuntime") -> str:
        from assent.bodies.administration import RuleBody
        from assent.bodies.body import page_text
        from assent.model.cursor import position_of, texts_in

        after = position_of(cursor, texts_in)
        found = await commands.rules.list(entity_type, after=after, limit=limit + 1)
        return page_text(found, limit, RuleBody.of, lambda rule: rule.position)

    route = get("rules", entity_type=entity_type, cursor=cursor, limit=limit)
    page = run_as_operator(None, org, route, work, json=json)
    print_items(page, json=json, show=_rules, none="There is no rule.")


@app.command()
def show(entity_type: TypeArgument, name: NameArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Show a rule."""

    async def work(commands: "OrgRuntime") -> "RuleBody":
        from assent.bodies.administration import RuleBody

        return RuleBody.of(await commands.rules.get(entity_type, name))

    rule = run_as_operator(None, org, get("rules", entity_type, name), work, json=json)
    if json:
        print_body(rule)
    else:
        console().print(_rules([rule]))


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
    rule = yaml_object(file)

    async def work(commands: "OrgRuntime") -> "SavedRuleBody":
        from assent.bodies.administration import SavedRuleBody

        return SavedRuleBody.of(await commands.rules.save(rule))

    def save_there(server: Server) -> Any:
        named = [rule.get(key) for key in ("entity_type", "name")]
        if not all(isinstance(name, str) and name for name in named):
            raise typer.BadParameter(f"expected `entity_type` and `name` in {file}")
        body = {key: value for key, value in rule.items() if key not in ("entity_type", "name")}
        return server.ask(put("rules", *named, body=body))

    saved = run_as_operator(app, org, save_there, work, json=json)
    print_change(saved, f"saved {saved.name} for {saved.entity_type}", json=json)
    for warning in [] if json else saved.warnings:
        console(stderr=True).print(f"{warning.code} {safe(warning.message)}")
        if warning.hint:
            console(stderr=True).print(f"  hint: {safe(warning.hint)}")


@app.command()
def delete(entity_type: TypeArgument, name: NameArgument, org: OrgOption, json: JsonOption = False) -> None:
    """Delete a rule; the history of its evaluations stays."""

    async def work(commands: "OrgRuntime") -> "RuleBody":
        from assent.bodies.administration import RuleBody

        return RuleBody.of(await commands.rules.delete(entity_type, name))

    gone = run_as_operator(None, org, delete_at("rules", entity_type, name), work, json=json)
    print_change(gone, f"deleted {gone.name}", json=json)


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

    async def work(commands: "OrgRuntime") -> str:
        from assent.bodies.administration import RuleEvaluationBody
        from assent.bodies.body import page_text
        from assent.model.cursor import id_in, position_of

        after = position_of(cursor, id_in)
        found = await commands.rules.list_evaluations(entity_type, name, after=after, limit=limit + 1)
        return page_text(found, limit, RuleEvaluationBody.of, lambda evaluation: str(evaluation.id))

    route = get("rules", entity_type, name, "evaluations", cursor=cursor, limit=limit)
    page = run_as_operator(None, org, route, work, json=json)
    print_items(page, json=json, show=_evaluations, none="It was never evaluated.")


def _rules(rules: "Sequence[Any]") -> "Table":
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


def _evaluations(evaluations: "Sequence[Any]") -> "Table":
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
