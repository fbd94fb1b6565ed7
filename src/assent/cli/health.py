"""`assent health`: how the queues stand, how fast they go, what is stuck, paused or dead."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assent.cli.options import JsonOption, named
from assent.cli.remote import current_server, get

if TYPE_CHECKING:
    from rich.table import Table

    from assent.bodies.operations import HealthReport
    from assent.operations.health import Health

OrgOption = Annotated[
    str | None, typer.Option("--org", help="Only what belongs to this org.", callback=named)
]


def health(org: OrgOption = None, json: JsonOption = False) -> None:
    """Say how everything goes. Ends with 1 when something is wrong, and says what."""
    from assent.cli.output import print_body
    from assent.cli.session import answer, ask

    server = current_server()
    if server is not None:
        found = ask(server, get("operations", "health"), json=json, org=org)
    else:
        found = answer(_look_here(org))
    if json:
        print_body(found)
    else:
        _show(found)
    raise typer.Exit(0 if found.healthy else 1)


def _look_here(org: str | None) -> "HealthReport":
    from assent.bodies.operations import HealthReport
    from assent.cli.output import console
    from assent.model.problems import Invalid
    from assent.store.errors import StoreError

    try:
        return HealthReport.of(asyncio.run(_look(org)))
    except (StoreError, Invalid) as error:
        console(stderr=True).print(str(error), style="red")
        raise typer.Exit(1) from None


async def _look(org: str | None) -> "Health":
    from assent.cli.session import migrated_database
    from assent.operations.health import HealthLimits, health

    limits = HealthLimits()
    async with migrated_database() as database:
        return await health(database, org, limits)


def _show(found: Any) -> None:
    from assent.cli.output import console, print_table, safe

    out = console()
    print_table(_queues(found))
    out.print(_latency(found), style="dim")
    for letters in found.dead_letters:
        out.print(
            f"dead {letters.queue}: {letters.number:,} {safe(letters.kind)}, {letters.recent:,} of them recent"
        )
    for problem in found.problems:
        out.print(f"✗ {safe(problem)}", style="red")
    if found.healthy:
        out.print("✓ all is well", style="green")


def _queues(found: Any) -> "Table":
    from datetime import timedelta

    from assent.cli.output import length, table

    headings = ("queue", "due", "oldest", "delayed", "claimed", "dead")
    rows = [
        (
            queue.name,
            f"{queue.pending:,}",
            length(timedelta(seconds=queue.oldest_s)) if queue.pending else "–",
            f"{queue.delayed:,}",
            f"{queue.processing:,}",
            f"{queue.dead:,}",
        )
        for queue in found.queues
    ]
    return table(headings, rows, right=headings[1:])


def _latency(found: Any) -> str:
    latency = found.latency
    if latency.p50_s is None or latency.p95_s is None:
        return "no event was processed in the last hour"
    return (
        f"events of the last hour: half of them took {latency.p50_s:.3f} s or less, "
        f"19 of 20 took {latency.p95_s:.3f} s or less"
    )
