"""`assent chains`: approval chains, an org's templates of approvers in sequence."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assent.cli.options import CursorOption, JsonOption, LimitOption, yaml_object
from assent.cli.output import console, print_body, print_list, print_table
from assent.cli.session import OrgOption, run_as_operator

if TYPE_CHECKING:
    from rich.table import Table

    from assent.approvals.chains import Chain
    from assent.runtime.runtime import OrgRuntime

LISTED_MAX: Final = 1_000

app = typer.Typer(no_args_is_help=True, help="Approval chains: saved, listed, shown.")


@app.command("list")
def list_(
    org: OrgOption, limit: LimitOption = LISTED_MAX, cursor: CursorOption = None, json: JsonOption = False
) -> None:
    """List the approval chains of an org, by name."""
    from assent.bodies.administration import ChainBody

    async def work(commands: "OrgRuntime") -> "Sequence[Chain]":
        from assent.model.cursor import position_of, text_in

        return await commands.chains.list(after=position_of(cursor, text_in), limit=limit + 1)

    print_list(
        *(run_as_operator(None, org, work, json=json), limit, ChainBody.of, lambda chain: chain.name),
        json=json,
        show=_table,
        none="There is no chain.",
    )


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The chain.")],
    org: OrgOption,
    json: JsonOption = False,
) -> None:
    """Show an approval chain with its steps."""
    _print(run_as_operator(None, org, lambda commands: commands.chains.get(name), json=json), json)


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
    saved = run_as_operator(None, org, lambda commands: commands.chains.save(chain), json=json)
    if json:
        _print(saved, json)
    else:
        console().print(f"✓ saved {saved.name}")


def _print(chain: "Chain", json: bool) -> None:
    from assent.bodies.administration import ChainBody

    if json:
        print_body(ChainBody.of(chain))
    else:
        print_table(_table([chain]))


def _table(chains: "Sequence[Chain]") -> "Table":
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
