"""`assent recompile`: after a new release, compile anew what the earlier compiler published."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

import asyncio
from typing import TYPE_CHECKING

import typer

from assent.cli.database import migrated_database
from assent.cli.options import JsonOption

if TYPE_CHECKING:
    from assent.definitions import Recompiled


def recompile(json: JsonOption = False) -> None:
    """Compile stale definitions again, and move their instances where the graph is the same.

    Ends with 1 where something stays stale: its source has problems now, or its instances cannot move.
    """
    from assent.cli.report import console, print_json
    from assent.store.errors import StoreError

    try:
        found = asyncio.run(_recompile())
    except StoreError as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None
    if json:
        print_json([as_json(one) for one in found])
    else:
        typer.echo("\n\n".join(map(_text, found)) or "Nothing is stale.")
    raise typer.Exit(1 if any(one.new is None or one.staying for one in found) else 0)


async def _recompile() -> "list[Recompiled]":
    from assent.app import App
    from assent.definitions import recompile
    from assent.runtime.operation_commands import repin

    async with migrated_database() as database:
        # Moving an instance runs none of its steps, so no application has to be named.
        advancing = App().runtime(database).core.advancing
        return await recompile(database, lambda moves: repin(database, advancing, moves))


def _text(one: "Recompiled") -> str:
    from assent.cli.definitions import one_line
    from assent.cli.report import counted

    lines = [f"stale       {one_line(one.old)}"]
    if one.new is not None:
        lines.append(f"recompiled  {one_line(one.new)}")
    lines += [f"problem     {problem}" for problem in one.problems]
    if one.moved:
        lines.append(f"moved       {counted(one.moved, 'instance')}")
    if one.staying:
        why = "the graph differs" if one.new else "there is nothing to move to"
        lines.append(f"staying     {counted(len(one.staying), 'instance')}: {why}")
        lines += [f"            {org_id}  {instance_id}" for org_id, instance_id in one.staying]
    return "\n".join(lines)


def as_json(one: "Recompiled") -> dict[str, object]:
    return {
        "old": one.old.to_json(),
        "new": one.new.to_json() if one.new else None,
        "same_graph": one.same_graph,
        "problems": [problem.to_json() for problem in one.problems],
        "moved": one.moved,
        "staying": [{"org_id": org_id, "instance_id": str(found)} for org_id, found in one.staying],
    }
