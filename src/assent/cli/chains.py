"""`assent chains`: approval chains, an org's templates of approvers in sequence."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, yaml_object
from assent.cli.output import print_body, print_change, print_items, print_table
from assent.cli.remote import Server, get, put
from assent.cli.session import OrgOption, run_as_operator

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.administration import ChainBody
    from assent.runtime.runtime import OrgRuntime

app = typer.Typer(no_args_is_help=True, help="Approval chains: list, show and save them.")


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = 50, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the approval chains of an org, by name."""

    async def work(commands: "OrgRuntime") -> str:
        from assent.bodies.administration import ChainBody
        from assent.bodies.body import page_text
        from assent.model.cursor import position_of, text_in

        found = await commands.chains.list(after=position_of(cursor, text_in), limit=limit + 1)
        return page_text(found, limit, ChainBody.of, lambda chain: chain.name)

    route = get("approval-chains", cursor=cursor, limit=limit)
    page = run_as_operator(None, org, route, work, json=json)
    print_items(page, json=json, show=_table, none="There is no chain.")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The chain.")],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Show an approval chain with its steps."""

    async def work(commands: "OrgRuntime") -> "ChainBody":
        from assent.bodies.administration import ChainBody

        return ChainBody.of(await commands.chains.get(name))

    _print(run_as_operator(None, org, get("approval-chains", name), work, json=json), json)


@app.command()
def save(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The chain as YAML or JSON; - for standard input.")
    ],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Save an approval chain, in place of the one of its name. Open requests keep their approvers."""
    chain = yaml_object(file)

    async def work(commands: "OrgRuntime") -> "ChainBody":
        from assent.bodies.administration import ChainBody

        return ChainBody.of(await commands.chains.save(chain))

    def save_there(server: Server) -> Any:
        name = chain.get("chain")
        if not isinstance(name, str) or not name:
            raise typer.BadParameter(f"expected `chain`, its name, in {file}")
        body = {key: value for key, value in chain.items() if key != "chain"}
        return server.ask(put("approval-chains", name, body=body))

    saved = run_as_operator(None, org, save_there, work, json=json)
    print_change(saved, f"saved {saved.name}", json=json)


def _print(chain: Any, json: bool) -> None:
    if json:
        print_body(chain)
    else:
        print_table(_table([chain]))


def _table(chains: "Sequence[Any]") -> "Table":
    from assent.cli.output import table

    rows = [
        [
            chain.name,
            chain.entity_type,
            step.name,
            str(dict(step.approvers)),
            step.mode,
            "" if chain.active else "unused",
        ]
        for chain in chains
        for step in chain.steps
    ]
    return table(("chain", "entity type", "step", "approvers", "mode", ""), rows)
