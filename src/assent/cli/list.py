"""`assent list`: the instances of an org."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from assent.cli.acting import Acting, AppOption, OrgOption, Session, UserOption, act
from assent.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.table import Table

    from assent.runtime.listing import InstanceFilter

Row = Mapping[str, Any]


class Status(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Found:
    """A page of instances, with the names of where they stand."""

    rows: list[Row]
    places: Mapping[UUID, list[str]]
    now: datetime


StatusOption = Annotated[
    list[Status] | None, typer.Option("--status", help="Only these; may be given several times.")
]
WorkflowOption = Annotated[str | None, typer.Option("--workflow", help="Only of this workflow.")]
TypeOption = Annotated[str | None, typer.Option("--entity-type", help="Only about this type of entity.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many are shown.")]
AfterOption = Annotated[UUID | None, typer.Option("--after", metavar="ID", help="Go on after this one.")]


def list_(  # noqa: PLR0913, PLR0917
    app: AppOption,
    org: OrgOption,
    user: UserOption,
    status: StatusOption = None,
    workflow: WorkflowOption = None,
    entity_type: TypeOption = None,
    limit: LimitOption = 50,
    after: AfterOption = None,
    json: JsonOption = False,
) -> None:
    """List instances, newest first, and where each stands."""
    from assent.cli.report import console, print_json
    from assent.cli.shapes import summary_json
    from assent.cli.tables import print_table
    from assent.runtime.listing import InstanceFilter

    wanted = InstanceFilter(
        statuses=[*status] if status else None, workflow=workflow, entity_type=entity_type
    )
    found = act(Acting(app, org, user, json), lambda session: _read(session, wanted, after, limit))
    if json:
        print_json([summary_json(row) for row in found.rows])
    elif found.rows:
        print_table(_table(found))
    else:
        console().print("There is no such instance.", style="dim")


async def _read(session: Session, wanted: "InstanceFilter", after: UUID | None, limit: int) -> Found:
    from dataclasses import replace

    from assent.runtime.listing import list_instances
    from assent.runtime.lookup import names_of_nodes
    from assent.runtime.readers import reader_of

    async with session.reading() as connection:
        reader = await reader_of(session.runtime, connection, session.org_id, session.actor)
        seen = replace(wanted, reader=reader)
        rows = await list_instances(connection, session.org_id, seen, after, limit)
        places = await names_of_nodes(connection, session.runtime.definitions, rows)
    return Found(rows, places, session.now())


def _table(found: Found) -> "Table":
    from assent.cli.tables import length, status_text, table

    rows = (
        [
            str(row["id"]),
            row["workflow_id"],
            status_text(row["status"]),
            ", ".join(found.places[row["id"]]),
            row["subject_id"],
            length(found.now - row["started_at"]),
            length(found.now - row["updated_at"]),
            (row["incident"] or {}).get("code"),
        ]
        for row in found.rows
    )
    headings = ("instance", "workflow", "status", "stands at", "started by", "age", "still for", "incident")
    return table(headings, rows, right=("age", "still for"))
