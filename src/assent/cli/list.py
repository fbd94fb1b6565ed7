"""`assent list`: the instances of an org."""

# ruff: noqa: PLC0415 - imported when the command runs, see cli/main.py

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from assent.cli.actor_options import ActorOptions, ActorSession, AppOption, OrgOption, UserOption, act
from assent.cli.options import JsonOption
from assent.store.rows import Row

if TYPE_CHECKING:
    from rich.table import Table

    from assent.runtime.views import InstanceFilter


class StatusFilter(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class InstanceList:
    """A page of instances, with the names of where they stand."""

    rows: list[Row]
    places: Mapping[UUID, list[str]]
    now: datetime


StatusOption = Annotated[
    list[StatusFilter] | None, typer.Option("--status", help="Only these; may be given several times.")
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
    from assent.runtime.views import InstanceFilter

    wanted = InstanceFilter(
        statuses=[*status] if status else None, workflow=workflow, entity_type=entity_type
    )
    found = act(ActorOptions(app, org, user, json), lambda session: _read(session, wanted, after, limit))
    if json:
        print_json([summary_json(row) for row in found.rows])
    elif found.rows:
        print_table(_table(found))
    else:
        console().print("There is no such instance.", style="dim")


async def _read(
    session: ActorSession, wanted: "InstanceFilter", after: UUID | None, limit: int
) -> InstanceList:
    from dataclasses import replace

    from assent.runtime.lookup import names_of_nodes
    from assent.runtime.readers import reader_of
    from assent.runtime.views import list_instances

    async with session.reading() as connection:
        reader = await reader_of(session.runtime.core, connection, session.org_id, session.actor)
        seen = replace(wanted, reader=reader)
        rows = await list_instances(connection, session.org_id, seen, after, limit)
        places = await names_of_nodes(connection, session.runtime.core.definitions, rows)
    return InstanceList(rows, places, session.now())


def _table(found: InstanceList) -> "Table":
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
